"""gordian's parts in Python: what a training script imports, and what reads sessions.

    import gordian
    session = gordian.open_session("latest")

A training job imports this too, so nothing is loaded before it is used.
"""

_OF_SESSION = ("Session", "SessionError", "open_session")


def __getattr__(name):
    if name not in _OF_SESSION:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gordian import session
    return getattr(session, name)


def __dir__():
    return sorted([*globals(), *_OF_SESSION])
