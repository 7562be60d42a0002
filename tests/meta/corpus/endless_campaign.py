"""A campaign that finds one thing after the other and says what it has saved, until it is killed.

Run as `python endless_campaign.py CORPUS FIRST`.
"""

import itertools
import sys

from corpus_faults import FILES, case

from corpus import create_corpus


def main() -> None:
    corpus = create_corpus(sys.argv[1], generator="test")
    for number in itertools.count(int(sys.argv[2])):
        raw = corpus.add(case(number), FILES)
        print(number, raw.id, flush=True)
        small = corpus.replace(raw.id, case(number, small=True), FILES)
        print(number, small.id, flush=True)


if __name__ == "__main__":
    main()
