"""A voice: messages become fields of the round's report. Long ones are cut, and many are dropped."""

from wit_world.imports import log as _host


def debug(message: str) -> None:
    """Says what only authors of policies want to know."""
    _host.write(_host.Level.DEBUG, message)


def info(message: str) -> None:
    """Says something of interest."""
    _host.write(_host.Level.INFO, message)


def warn(message: str) -> None:
    """Says what operators should look at some day."""
    _host.write(_host.Level.WARN, message)


def error(message: str) -> None:
    """Says what operators should look at now."""
    _host.write(_host.Level.ERROR, message)
