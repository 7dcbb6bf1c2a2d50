"""Two figures side by side, from the data frames of some runs."""

from matplotlib.figure import Figure

from spinup_tf2.utils.plot import get_all_datasets, plot_data

if __name__ == "__main__":
    runs = get_all_datasets(["data/sizes"])
    figure = Figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_data(runs, ax=left)
    plot_data(runs, value="Entropy", smooth=3, ax=right)
    figure.savefig("curves.png")
