"""PUBLISHED: the datasets of the paper and Fashion-MNIST: classes, sizes, statistics, files with checksums, hub ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from softmatch.data.sources.hub_datasets import Repository
from softmatch.data.sources.originals import Originals, read_cifar, read_idx, read_stl10, read_svhn


@dataclass(frozen=True)
class Published:
    """A dataset that others have published.

    Attributes:
        classes: in the order of the labels; for ImageNet they are read from the folders.
        mean, std: per channel, of levels in 0 … 1 over the training images (STL-10: over the labelled ones).
        hub: where it is on the Hugging Face hub. If a dataset moves, change it here.
        originals: its own files; None: a tree of image files.
        defaults: settings (of `Config`) that differ from the general defaults.
    """

    name: str
    summary: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    hub: Repository
    originals: Originals | None
    defaults: Mapping[str, Any]


_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""

SHORT: Mapping[str, Any] = {"recipe": "sprint", "minutes": 10.0}
"""Length and recipe of a run, unless the user chooses another network or recipe."""

PUBLISHED: dict[str, Published] = {
    dataset.name: dataset
    for dataset in (
        Published(
            "cifar10",
            "60,000 photographs of 32×32 pixels in 10 classes",
            ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
            (3, 32, 32),
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            Repository("uoft-cs/cifar10", image="img"),
            Originals(
                {
                    "data_batch_1": "c99cafc152244af753f735de768cd75f",
                    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
                    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
                    "data_batch_4": "634d18415352ddfa80567beed471001a",
                    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
                    "test_batch": "40351d587109b95175f43aff81a1287e",
                },
                read_cifar,
                ("", "cifar-10-batches-py"),
                ("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
            ),
            {"labels": 40, **SHORT},
        ),
        Published(
            "cifar100",
            "60,000 photographs of 32×32 pixels in 100 classes",
            tuple(_CIFAR100_CLASSES.split()),
            (3, 32, 32),
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
            Repository("uoft-cs/cifar100", image="img", label="fine_label"),
            Originals(
                {"train": "16019d7e3df5f24257cddd939b257f8d", "test": "f0ef6b0ae62326f3e7ffdfab6717acfc"},
                read_cifar,
                ("", "cifar-100-python"),
                ("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
            ),
            {"labels": 400, **SHORT},
        ),
        Published(
            "svhn",
            "630,420 house-number digits of 32×32 pixels (train and extra to train on)",
            tuple("0123456789"),
            (3, 32, 32),
            (0.4309, 0.4302, 0.4463),
            (0.1965, 0.1983, 0.1994),
            Repository("ufldl-stanford/svhn", config="cropped_digits", train=("train", "extra")),
            Originals(
                {
                    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
                    "extra_32x32.mat": "a93ce644f1a588dc4d68dda5feec44a7",
                    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
                },
                read_svhn,
            ),
            {"labels": 40, **SHORT},
        ),
        Published(
            "stl10",
            "13,000 photographs of 96×96 pixels in 10 classes, and 100,000 without a label",
            ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
            (3, 96, 96),
            (0.4467, 0.4398, 0.4066),
            (0.2603, 0.2566, 0.2713),
            Repository("jxie/stl10", unlabeled="unlabeled"),
            Originals(
                {
                    "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
                    "train_y.bin": "5a34089d4802c674881badbb80307741",
                    "unlabeled_X.bin": "5242ba1fed5e4be9e1e742405eb56ca4",
                    "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
                    "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
                },
                read_stl10,
                ("", "stl10_binary"),
                ("stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"),
            ),
            {"labels": 40, **SHORT},
        ),
        Published(
            "imagenet",
            "1.3 million photographs in 1,000 classes, which stay in their files",
            (),
            (3, 224, 224),
            (0.485, 0.456, 0.406),
            (0.229, 0.224, 0.225),
            Repository("ILSVRC/imagenet-1k", test="validation"),
            None,
            {"labels": 100_000, "labeled_batch": 128, "unlabeled_batch": 128},
        ),
        Published(
            "fashion-mnist",
            "70,000 grey images of 28×28 pixels of 10 kinds of clothes",
            ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
            (1, 28, 28),
            (0.2860,),
            (0.3530,),
            Repository("zalando-datasets/fashion_mnist"),
            Originals(
                {
                    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
                    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
                    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
                },
                read_idx,
                ("", "FashionMNIST/raw"),
            ),
            {"labels": 40, **SHORT},
        ),
    )
}
