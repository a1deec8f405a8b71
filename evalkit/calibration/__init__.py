"""Calibration: does what is forecast with probability p happen in a share p of cases?"""

from evalkit.calibration.calibration_error import CalibrationError, calibration_error
from evalkit.calibration.corp import CorpDecomposition, corp_decomposition
from evalkit.calibration.murphy import MurphyDecomposition, murphy_decomposition

__all__ = [
    "CalibrationError",
    "CorpDecomposition",
    "MurphyDecomposition",
    "calibration_error",
    "corp_decomposition",
    "murphy_decomposition",
]
