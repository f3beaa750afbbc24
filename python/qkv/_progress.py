# SPDX-License-Identifier: MIT
"""Progress bars of tqdm, in a terminal or a notebook; without tqdm, or where no bar is wanted, nothing is shown."""
import sys
import warnings


class Bar:
    """A progress bar that callbacks advance; close() ends it, also after an error."""

    def __init__(self, show, unit):
        self._tqdm, self._bar, self._unit = _tqdm() if wanted(show) else None, None, unit

    def to(self, done, total, begin=0, **shown):
        """Shows done of total steps, and numbers after the bar; begin: the steps that were done before the first call."""
        if self._tqdm is None:
            return
        if self._bar is None:
            self._bar = self._tqdm(total=total, initial=begin, unit=self._unit)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self):
        if self._bar is not None:
            self._bar.close()
        self._tqdm = self._bar = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def wanted(show):
    """Returns whether to show a bar; None: if logging is at INFO or DEBUG, as sentence-transformers decides."""
    if show is not None:
        return bool(show)
    logging = sys.modules.get("logging")  # a program that sets a level has imported it
    return logging is not None and logging.getLogger("qkv").getEffectiveLevel() in (logging.INFO, logging.DEBUG)


def _tqdm():
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm recommends ipywidgets in a notebook; its text bar is enough
            from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm
