import logging

import pytest

from aotc.commands.dask import dask_cluster


def test_no_logger_of_dask_prints_tracebacks_of_lost_connections() -> None:
    pytest.importorskip("distributed")
    dask_cluster._silence()
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    assert "distributed.client" in names
    assert [name for name in names if logging.getLogger(name).isEnabledFor(logging.ERROR)] == []
