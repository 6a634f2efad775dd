"""Reads everything, says nothing: a server that never answers."""

import sys

for _ in sys.stdin.buffer:
    pass
