"""From what was read to the immutable settings of one agent: choosing, checking, building."""
