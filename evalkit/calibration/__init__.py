"""Calibration: does what is forecast with probability p happen in a share p of cases?"""

from evalkit.calibration.corp import CorpDecomposition, corp_decomposition

__all__ = ["CorpDecomposition", "corp_decomposition"]
