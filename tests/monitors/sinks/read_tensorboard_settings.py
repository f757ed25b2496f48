"""Prints the settings of a run, as TensorBoard reads them."""
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

run = event_accumulator.EventAccumulator(sys.argv[1])
run.Reload()
text = run.Tensors("config")[0].tensor_proto.string_val[0].decode()
print("config:", text.strip())
content = run.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
for name, value in sorted(session.hparams.items()):
    print(name, value.number_value)
