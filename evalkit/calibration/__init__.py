"""Calibration: does what is forecast with probability p happen in a share p of cases?"""

from evalkit.calibration.calibration_error import CalibrationError, calibration_error
from evalkit.calibration.corp import CorpDecomposition, corp_decomposition
from evalkit.calibration.intervals import MiscalibrationInterval
from evalkit.calibration.miscalibration import mcb_interval
from evalkit.calibration.murphy import MurphyDecomposition, murphy_decomposition
from evalkit.calibration.smooth import SmoothCalibrationError, smooth_calibration_error

__all__ = [
    "CalibrationError",
    "CorpDecomposition",
    "MiscalibrationInterval",
    "MurphyDecomposition",
    "SmoothCalibrationError",
    "calibration_error",
    "corp_decomposition",
    "mcb_interval",
    "murphy_decomposition",
    "smooth_calibration_error",
]
