"""Calibration: does what is forecast with probability p happen in a share p of cases?"""

from evalkit.calibration.bands import Band
from evalkit.calibration.calibration_error import CalibrationError, calibration_error
from evalkit.calibration.corp import CorpDecomposition, corp_decomposition
from evalkit.calibration.discrimination_plot import discrimination_plot
from evalkit.calibration.intervals import MiscalibrationInterval
from evalkit.calibration.miscalibration import mcb_interval
from evalkit.calibration.murphy import MurphyDecomposition, murphy_decomposition
from evalkit.calibration.recalibration import Recalibration, recalibrate
from evalkit.calibration.reliability import ReliabilityDiagram, reliability_diagram
from evalkit.calibration.reliability_plot import reliability_grid, reliability_plot
from evalkit.calibration.smooth import SmoothCalibrationError, smooth_calibration_error

__all__ = [
    "Band",
    "CalibrationError",
    "CorpDecomposition",
    "MiscalibrationInterval",
    "MurphyDecomposition",
    "Recalibration",
    "ReliabilityDiagram",
    "SmoothCalibrationError",
    "calibration_error",
    "corp_decomposition",
    "discrimination_plot",
    "mcb_interval",
    "murphy_decomposition",
    "recalibrate",
    "reliability_diagram",
    "reliability_grid",
    "reliability_plot",
    "smooth_calibration_error",
]
