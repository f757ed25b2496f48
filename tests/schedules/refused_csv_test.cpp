#include "refused.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;
using troupe::testing::check_refused;
using troupe::testing::refused_text;

namespace {

const refused_text refused[]{
  {"", error_code::malformed_text,
   "x.csv: the file is empty; it needs one line for each rank"},
  {"0F0,0B0\r", error_code::malformed_text,
   "x.csv, line 1, cell 2 (column 5) '0B0\\x0D': '\\x0D' follows the action; "
   "remove it"},
  {"0F0,0B0\n\n", error_code::malformed_text,
   "x.csv, line 2: the line is empty, but a rank has at least one op"},
  {"\"\"\n", error_code::malformed_text,
   "x.csv, line 1: the line is empty, but a rank has at least one op"},
  {"0 F0,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0 F0': it contains a blank; remove it"},
  {"0F0,0B 0\n", error_code::malformed_text,
   "x.csv, line 1, cell 2 (column 5) '0B 0': it contains a blank; remove it"},
  {"<svg xmlns=\"x\"/>\n", error_code::malformed_text,
   "x.csv: it is a picture (SVG) or another XML file; give a schedule's CSV "
   "or text form, as troupe plan --format csv or schedule writes it"},
  {"{\"ranks\": 2}\n", error_code::malformed_text,
   "x.csv: it is JSON; give a schedule's CSV or text form, as troupe plan "
   "--format csv or schedule writes it"},
  {"troupe plan 1\n", error_code::malformed_text,
   "x.csv: it is a plan, which verify, simulate and train --plan read; give a "
   "schedule's CSV or text form, as troupe plan --format csv or schedule "
   "writes "
   "it"},
  {"00F0,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '00F0': the stage number 00 has a leading "
   "zero"},
  {"0F01,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F01': the microbatch number 01 has a "
   "leading zero"},
  {"0F0x,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F0x': 'x' follows the action; remove "
   "it"},
  {"0F,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F': a microbatch number is missing"},
  {"0F-1,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F-1': a microbatch number is missing"},
  {"0BW0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0BW0': a microbatch number is missing"},
  {"F0,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) 'F0': a stage number is missing"},
  {"0X0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0X0': 'X0' is not an action; known "
   "actions are F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, OFFLOAD, RELOAD, "
   "UNSHARD, RESHARD and REDUCE_GRAD"},
  {"0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0': the action is missing after the "
   "stage"},
  {"0F0,\"0B0\"\n", error_code::malformed_text,
   "x.csv, line 1, cell 2 (column 5) '\"0B0\"': a stage number is missing"},
  {"\331\241F0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '\\xD9\\xA1F0': a stage number is "
   "missing"},
  {"0F9999999999,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F9999999999': the microbatch number "
   "9999999999 is larger than 268435456"},
  {"(0F0)F\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '(0F0)F': ';' is missing in the "
   "overlapped pair"},
  {"()OVERLAP_F_B\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '()OVERLAP_F_B': a stage number is "
   "missing"},
  {"(0F0;1B0)OVERLAP_B_F\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '(0F0;1B0)OVERLAP_B_F': the overlapped "
   "pair must end with ')OVERLAP_F_B'"},
  {"(0B0;1F0)OVERLAP_F_B\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '(0B0;1F0)OVERLAP_F_B': an overlapped "
   "pair is one F, then one B"},
  {"(0F0,1B0)OVERLAP_F_B\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '(0F0': ';' is missing in the overlapped "
   "pair"},
  {"((0F0;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '((0F0;1B0)OVERLAP_F_B;1B0)OVERLAP_F_B': "
   "overlapped pairs can't be nested"},
  {"(0F0;0B0)OVERLAP_F_B\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): the overlapped pair 0F0, 0B0 has one "
   "stage; it needs two"},
  {"0UNSHARD0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0UNSHARD0': '0' follows the action; "
   "remove it"},
  {"0F0;0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F0;0B0': ';0B0' follows the action; "
   "remove it"},
  {"0F0\v,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 1 (column 1) '0F0\\x0B': '\\x0B' follows the action; "
   "remove it"},
  {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 2 '0SEND_F0': a compute schedule has no transfers and "
   "no sharding; give the compute-only file"},
  {"0F0,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0F0 appears twice; remove one"},
  {"0F0,0B0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0B0 appears twice; remove one"},
  {"0F0\n1F0,1B0\n", error_code::invalid_schedule,
   "x.csv, line 1 (rank 0): 0B0 is missing"},
  {"0F0,0B0\n1F0\n", error_code::invalid_schedule,
   "x.csv, line 2 (rank 1): 1B0 is missing"},
  {"0B0,0F0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 0B0 comes before its F"},
  {"0F0,0W0,0I0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0W0 comes before its I"},
  {"0F0,0I0\n", error_code::invalid_schedule,
   "x.csv, line 1 (rank 0): 0W0 is missing"},
  {"0F0,0I0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0B0 conflicts with another op: a "
   "microbatch has either B, or I and W"},
  {"0F0,0B0,0W0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0W0 conflicts with another op: a "
   "microbatch has either B, or I and W"},
  {"0F0,0B0\n0F1,0B1\n", error_code::invalid_schedule,
   "x.csv, line 2, cell 1 (rank 1): 0F1 is on rank 1, but stage 0 is on "
   "rank 0"},
  {"0F0,0B0\n2F0,2B0\n", error_code::invalid_schedule,
   "x.csv: 1F0 is missing; the numbers in the file imply 3 stages and 1 "
   "microbatches"},
  {"0F0,0B0,0F2,0B2\n", error_code::invalid_schedule,
   "x.csv, line 1 (rank 0): 0F1 is missing"},
  {"0F0,0B0\n,,\n", error_code::invalid_schedule,
   "x.csv, line 2 (rank 1): the rank has no compute op"},
  {"268435456F0\n", error_code::invalid_schedule,
   "x.csv: stage 268435456 appears in a file of 1 ops, so other stages are "
   "missing"},
  {"0F268435456\n", error_code::invalid_schedule,
   "x.csv: 0F0 is missing; the numbers in the file imply 1 stages and "
   "268435457 microbatches"},
  {"300F0,0F0\n", error_code::invalid_schedule,
   "x.csv: stage 300 appears in a file of 2 ops, so other stages are missing"},
  {"0F0,0F300\n", error_code::invalid_schedule,
   "x.csv: 0F1 is missing; the numbers in the file imply 1 stages and 301 "
   "microbatches"},
};

}  // namespace

TEST_CASE("a malformed or incomplete CSV is refused with place and reason") {
  check_refused(refused, [](const char* csv) { from_csv(csv, "x.csv"); });
}

TEST_CASE("blanks around a cell are read over, as PyTorch's reader does") {
  CHECK(to_csv(from_csv(" 0F0 ,\t0B0\n")) == "0F0,0B0\r\n");
}
