"""The weights of ranking, learnt by `./scripts/fit_ranking` on all families of notes at once, each counting the same.

What words and vectors tell is in nats and adds up; what makes a line likelier to be an answer whatever was asked
multiplies. They are read where they are used, as `learnt.LINE`, so that the script can try others.
"""

LINE = 0.15
"""For each nat of the question's information that a line itself holds."""
AROUND = 0.2
"""For each that it holds together with the lines beside it, and with its title, date and headings."""
CHUNK = 0.15
"""For each that its chunk holds by BM25."""
FILE = 0.23
"""For each that the best chunk of its file holds by BM25."""
MEANING = 0.83
"""For each standard deviation of the query's cosines that its excerpt stands out, of a model that is wholly trusted;
and as much for the best excerpt of its note."""
LENGTH = 0.5
"""The power of its length with which a line is likelier to answer: a long one says more than what was asked."""
HELD = 0.25
"""For each concept of the question that a line itself holds, whatever it weighs, where no model tells what it means."""
HEADING = -3.6
"""For a heading: it names a subject, and what stands below it answers."""
LABEL = 2.0
"""For a line that is said by, or is about, what was asked for."""
REPLY = 0.55
"""For a line after one that asks."""
TIME = 1.5
"""For a line that tells a time, where that is asked for."""
RECENT = 1.1
"""The power with which a whole prompt means what was noted last: a note a month older than the newest one that may be
meant counts half, one a year older a fifteenth."""
AGAIN = 0.8
"""What a further passage of a file counts of what it would count in another one."""


def text() -> float:
    """What words can tell at most, for each nat."""
    return LINE + AROUND + CHUNK + FILE
