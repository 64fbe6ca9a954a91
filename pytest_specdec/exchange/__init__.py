"""Files of other tools: results of load generators that are judged here, and our results in forms that others read."""

from __future__ import annotations
