"""Single frames, right and wrong, against the rules of known traps (their numbers are in the tests)."""

# pylint: disable=wildcard-import,unused-wildcard-import
from .versions import *   # noqa: F401,F403
from .frames import *     # noqa: F401,F403
from .topics import *     # noqa: F401,F403
from .configs import *    # noqa: F401,F403
from .writing import *    # noqa: F401,F403
from .reading import *    # noqa: F401,F403
from .edges import *      # noqa: F401,F403
from .deletion import *   # noqa: F401,F403
from .consumer_groups import *   # noqa: F401,F403

NEEDS = ("kafka",)
