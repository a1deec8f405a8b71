"""Calibration: does what is forecast with probability p happen in a share p of cases?"""
