"""Intervals, standard errors and tests that hold at the sample sizes that evaluations have.

Results are the same to the bit in any order of the rows, and under any names of the clusters.
"""

from evalkit.uncertainty.bootstrap import BootstrapMean, bootstrap_mean
from evalkit.uncertainty.gaffke import Interval, gaffke_interval
from evalkit.uncertainty.means import MeanInterval, mean_interval
from evalkit.uncertainty.multiplicity import benjamini_hochberg, holm
from evalkit.uncertainty.sandwich import ClusterSE, cluster_se
from evalkit.uncertainty.sign_flip import SignFlipTest, sign_flip_test

__all__ = [
    "BootstrapMean",
    "ClusterSE",
    "Interval",
    "MeanInterval",
    "SignFlipTest",
    "benjamini_hochberg",
    "bootstrap_mean",
    "cluster_se",
    "gaffke_interval",
    "holm",
    "mean_interval",
    "sign_flip_test",
]
