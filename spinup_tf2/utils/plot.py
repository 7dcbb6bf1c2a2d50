"""Spinning Up's names for plotting: `python -m spinup_tf2.utils.plot LOGDIR ...`."""

from spinup_tf2.results.datasets import get_all_datasets, get_datasets
from spinup_tf2.results.plot import main, make_plots, plot_data
from spinup_tf2.results.statistics import ERRORBARS, ESTIMATORS, final_performance, get_curves

if __name__ == "__main__":
    main()
