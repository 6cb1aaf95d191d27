"""One Markdown file as the index holds it: what changed, the rows that stand for it, writing them."""
