"""What a run has written into its progress.txt."""


def rows_without_time(path):
    """The header and the rows, each a list of text, without the column that is never the same."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    time = rows[0].index("Time")
    return [row[:time] + row[time + 1 :] for row in rows]
