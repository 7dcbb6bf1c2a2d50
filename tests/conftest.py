"""At the end it is said how many inputs the fuzz tests have tried."""


def pytest_terminal_summary(terminalreporter):
    stats = terminalreporter.stats
    reports = [report for name in ("passed", "failed") for report in stats.get(name, [])]
    counts = [n for each in reports for name, n in each.user_properties if name == "fuzzed inputs"]
    if counts:
        terminalreporter.write_line(f"fuzzed inputs: {sum(counts)} in {len(counts)} tests")
