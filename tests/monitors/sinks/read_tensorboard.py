"""Prints what TensorBoard's own reader finds in a folder of event files:
read_tensorboard.py FOLDER. Its Catch2 case runs it where it can."""
import logging
import sys

from tensorboard.backend.event_processing import event_accumulator


def main(folder):
    logging.disable(logging.WARNING)
    found = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0,
                               event_accumulator.HISTOGRAMS: 0})
    found.Reload()
    tags = found.Tags()
    for tag in sorted(tags["scalars"]):
        for event in found.Scalars(tag):
            print(tag, event.step, event.value)
    for tag in sorted(tags["histograms"]):
        for event in found.Histograms(tag):
            print_histogram(tag, event.step, event.histogram_value)


def print_histogram(tag, step, value):
    lefts = [value.min, *value.bucket_limit[:-1]]
    buckets = " ".join(
        f"[{left:g},{right:g}):{count:g}" for left, right, count in
        zip(lefts, value.bucket_limit, value.bucket))
    print(f"{tag} {step} num={value.num:g} min={value.min:g} "
          f"max={value.max:g} sum={value.sum:g} {buckets}")


if __name__ == "__main__":
    main(sys.argv[1])
