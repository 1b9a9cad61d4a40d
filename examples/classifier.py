"""Arrays in, a classifier out, as with any estimator of scikit-learn: handwritten digits of which 40 have a label.

    python examples/classifier.py

In y, −1 stands for "no label"; None and NaN do too. X may also be a pandas frame, a list of texts, vectors, or the path of a
folder of images or of a table, which has its labels with it: Classifier().fit("photos/").
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from softmatch import Classifier


def main(steps: int = 600) -> float:
    images, digits = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    train, test, truth, test_digits = train_test_split(images, digits, test_size=0.3, random_state=0)

    labeled = np.concatenate([np.flatnonzero(truth == digit)[:4] for digit in range(10)])
    y = np.full(len(train), -1)
    y[labeled] = truth[labeled]

    # Network, batches and views suit the data by default. Here, digits must not be mirrored, and a small network will do.
    views = {"pad": 1, "flip": False, "reflect": False, "operations": 2}
    classifier = Classifier("softmatch", "small-conv-16", steps=steps, labeled_batch=40, unlabeled_batch=96, views=views)
    classifier.fit(train, y)

    error = 1 - classifier.score(test, test_digits)
    machine = SVC().fit(train[labeled].reshape(40, -1), truth[labeled])
    other = 1 - machine.score(test.reshape(len(test), -1), test_digits)
    print(f"40 labels: {100 * error:.1f} % of the test digits wrong; {100 * other:.1f} % by a support vector machine")

    unsure = classifier.transduction_confidence_.argsort()[:3]  # worth a look: pseudo-labels, or labels, least believed
    print("least sure of:", [(int(row), int(classifier.transduction_[row])) for row in unsure])

    with tempfile.TemporaryDirectory() as folder:
        classifier.save(Path(folder) / "digits")
        loaded = Classifier.load(Path(folder) / "digits")
        assert (loaded.predict_proba(test) == classifier.predict_proba(test)).all()
    return float(error)


if __name__ == "__main__":
    main()
