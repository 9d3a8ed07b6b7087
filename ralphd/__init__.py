"""ralphd: the overnight supervisor of Ralph loops."""

__version__ = "0.1.0"
