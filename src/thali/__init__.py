"""thali learns, click by click, which diverse list of items to show each person.

The public names are listed only in ``__init__.pyi``. Each name is imported when it is first used, so that
``import thali`` and ``thali --help`` are fast.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
