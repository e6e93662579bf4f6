"""How the project's plots look."""

from __future__ import annotations

import matplotlib as mpl


def plot_style() -> None:
    """Set the style of all that is plotted from now on. The same figures give the same file."""
    mpl.rcParams.update(
        {"svg.hashsalt": "mirror", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
