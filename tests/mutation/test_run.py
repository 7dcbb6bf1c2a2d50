"""What the table of mutation tests names is there."""

import pytest

from tests.mutation.run import FILES, REPOSITORY


@pytest.mark.parametrize("name", FILES)
def test_files_and_their_tests_exist(name):
    assert (REPOSITORY / "spinup_tf2" / name).is_file()
    for each in FILES[name]:
        assert (REPOSITORY / each.split(" -k ")[0]).is_file(), each
