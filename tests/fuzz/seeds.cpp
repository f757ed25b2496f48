#include "seeds.hpp"

#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <bit>
#include <random>

#include "../files.hpp"
#include "../monitors/live/sample_events.hpp"
#include "../temporary_folder.hpp"
#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/transport/trust/certificates.hpp"
#include "troupe/engine/transport/wire.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::testing {

namespace {

using seed_list = std::vector<std::pair<std::string, std::string>>;

std::string bytes_of(const frame& what) {
  auto all = frame_start(what);
  for (const auto& tensor : what.tensors)
    if (tensor.defined())
      all.append(static_cast<const char*>(tensor.const_data_ptr()),
                 tensor.nbytes());
  return all;
}

std::string with_choice(int choice, const std::string& bytes) {
  return static_cast<char>(choice) + bytes;
}

void add_frames(seed_list& to) {
  const frame tensors{
    frame_type::tensors, "head", {at::zeros({2, 3}), {}, at::zeros({0})}};
  const frame goodbye{frame_type::goodbye, {}, {}};
  for (const int piece : {0, 255})
    to.emplace_back("frames",
                    with_choice(piece, bytes_of(tensors) + bytes_of(goodbye)));
}

void add_rendezvous(seed_list& to) {
  for (const rendezvous_message& each : std::vector<rendezvous_message>{
         join_request{1,
                      2,
                      77,
                      "host",
                      {"tcp:127.0.0.1:8", "m", "unix:/tmp/a"},
                      {{"--ranks", "2"}}},
         join_welcome{7, {{"unix:/a"}, {"tcp:127.0.0.1:80", "m", "unix:/b"}}},
         join_refusal{"no"}, line_hello{7, 1}, clock_question{5},
         clock_answer{5, 6}, job_ready{{0, 9}}})
    to.emplace_back("rendezvous", to_frame(each).head);
}

rank_done report() {
  rank_done result;
  auto& stage = result.stages.emplace_back();
  stage.result.losses = {{"loss", 1.5, 2}};
  result.ops = {{1, 2, 3, 4, 5}};
  result.messages = {{1, 2, 3, 4, 5, 6, 7}};
  result.memory.emplace();
  return result;
}

void add_job_messages(seed_list& to) {
  const auto add = [&](int kind, const frame& what) {
    const auto tensors = std::min<std::size_t>(what.tensors.size(), 3);
    to.emplace_back(
      "job_messages",
      with_choice(kind, with_choice(static_cast<int>(tensors), what.head)));
  };
  remote_begin begin;
  begin.wishes.interest =
    std::make_shared<tensor_interest>(std::vector<subscription>(1));
  for (const control_message& each : std::vector<control_message>{
         begin, stage_powers{1, 0, {2.5}}, norm_verdict{1, 2}, report(),
         remote_outcome{}, op_failure{{}, "0F1", "why"}, interrupt_run{"why"},
         save_run{3}})
    add(0, to_frame(each));
  std::mt19937_64 random(3);
  for (const auto& each : sample_events(random))
    add(0, to_frame(each));
  add(1, to_frame(stage_tensors{{}, {at::zeros({2})}}));
  add(2, to_frame(collective_part{1, 0, 0, 0, at::zeros({2})}));
  add(3, to_frame(credit_back{1, 2}));
  add(4, to_frame(chosen_tokens{1, 0, {2, 1}, 3, {4, 5}}));
}

/// Messages between steps, and before the first one.
void add_lists(seed_list& to) {
  const auto parameters = to_wire(std::vector<held_parameter>{
    {{1}, 0, "a.weight", "a.weight", 5}, {{1}, 0, "b.bias", "a.bias", 5}});
  for (const int kind : {0, 1})
    to.emplace_back("job_lists", with_choice(kind, parameters));
  to.emplace_back("job_lists",
                  with_choice(2, to_wire(std::vector<std::string>{"a", "bc"})));
  for (const char* each : {"node[01-03,7],x1", "a,b", "n[1-2]m[3]", "node01"})
    to.emplace_back("first_hosts", with_choice(0, each));
  for (const char* each :
       {"7.0;tcp://10.0.0.1,10.1.0.1:5031;tcp6://[fd00::2]:4480",
        "7.0;tcp6://[fd00::2,fd00::3]:4480"})
    to.emplace_back("first_hosts", with_choice(1, each));
  constexpr int sealed_with_five = 2 + 4 * 5;
  to.emplace_back(
    "shared_memory",
    with_choice(sealed_with_five,
                "TRPM" + std::string("\1\0\0\0\0\x10\0\0\0\0\0\0", 12)));
}

void add_rings(seed_list& to) {
  wire_writer commands;
  for (const int kind : {2, 3, 4, 5, 0, 3, 1, 2}) {
    commands.put(static_cast<std::uint8_t>(kind));
    commands.put(std::uint64_t{50});
    commands.put(std::uint8_t{40});
  }
  to.emplace_back("rings", commands.take());
}

/// Whole requests to a job, each after a byte that chooses the place where it
/// arrives.
void add_http_requests(seed_list& to) {
  const std::string by_token =
    "Host: localhost\r\nAuthorization: Bearer a-token-to-control-with\r\n";
  const auto add = [&](int place, const std::string& line,
                       const std::string& headers,
                       const std::string& body = {}) {
    auto text = line + " HTTP/1.1\r\n" + headers;
    if (!body.empty())
      text += "Content-Type: application/json\r\nContent-Length: "
              + std::to_string(body.size()) + "\r\n";
    to.emplace_back("http_requests", with_choice(place, text + "\r\n" + body));
  };
  for (const auto* path : {"/", "/health", "/metrics", "/plan", "/monitors",
                           "/state/7/a", "/events?ops=true&every=10",
                           "/events?tensors=gradient&names=blocks.*%2Ca"})
    add(2, std::string("GET ") + path, by_token);
  add(1, "HEAD /health", "Origin: http://job\r\nHost: job\r\n");
  add(5, "DELETE /monitors/1", "Host: job\r\nSec-Fetch-Site: none\r\n");
  for (const auto& [path, body] :
       std::vector<std::pair<std::string, std::string>>{
         {"/monitors", R"({"spec":"gap:every=10","keep":true})"},
         {"/events", json_text(json_of(subscription{}))},
         {"/replan", R"({"text":"0F0,0B0","source":"a","force":true})"}})
    add(2, "POST " + path, by_token, body);
  add(1, "POST /events",
      "Transfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
      "2\r\n{}\r\n0\r\n");
  add(3, "GET /", "Authorization: Basic dTphLXBhZ2UtdG9rZW4=\r\n");
}

void add_live(seed_list& to) {
  std::mt19937_64 random(5);
  for (const auto& each : sample_events(random))
    to.emplace_back("live_events", with_choice(0, json_text(json_of(each))));
  alert warning;
  warning.monitor = "spike";
  to.emplace_back("live_events", with_choice(1, json_text(json_of(warning))));
  to.emplace_back("live_events",
                  with_choice(2, json_text(json_of(metrics_record{}))));
}

void add_addresses(seed_list& to) {
  for (const char* each :
       {"unix:/tmp/a.sock", "tcp:127.0.0.1:80", "tcp:[::1]:80", "tcp:a.host:0"})
    to.emplace_back("addresses", with_choice(0, each));
  for (const char* each : {"127.0.0.1:80", "localhost:0", "[::1]:9464"})
    for (const int kind : {1, 2})
      to.emplace_back("addresses", with_choice(kind, each));
  to.emplace_back("addresses", with_choice(3, "Basic dXNlcjpwYXNzd29yZA=="));
  to.emplace_back("addresses", with_choice(3, "Bearer token"));
}

/// Each stage reads the two previous ones.
stage_graph skipping(const schedule& lanes) {
  std::vector<stage_edge> edges;
  for (std::int32_t s = 1; s < lanes.stages(); ++s) {
    edges.push_back({s - 1, s});
    if (s > 1)
      edges.push_back({s - 2, s});
  }
  return {lanes.stages(), edges};
}

void add_schedules(seed_list& to) {
  for (const char* name : {"1f1b", "gpipe", "eager_1f1b", "interleaved_1f1b"}) {
    schedule_shape sizes{.ranks = 2, .microbatches = 4};
    if (std::string(name) == "interleaved_1f1b")
      sizes.stages_per_rank = 2;
    const auto lanes = make_schedule(name, sizes);
    to.emplace_back("schedules", to_text_form(lanes));
    to.emplace_back("schedules", to_csv(lanes));
    const auto lowered = compile(lanes, {});
    to.emplace_back("plans", to_text(lowered));
    to.emplace_back("plans", to_text(without_overlapped_reductions(
                               compile(lanes, {.data_parallel = 2}))));
    to.emplace_back("plans", to_lowered_csv(lowered));
    to.emplace_back("plans", to_text(offloaded(
                               lowered, {.fraction = 0.75, .least_stay = 2})));
    if (lanes.stages() > 2) {
      to.emplace_back("plans",
                      to_text(compile(lanes, {.graph = skipping(lanes)})));
      to.emplace_back("plans", to_text(compile(lanes, {.tied = {0, 3}})));
    }
  }
  for (const char* each : {"2F3", "0B11", "0I4", "0W4", "(0F7;7B3)OVERLAP_F_B",
                           "0SEND_F1", "1RECV_B1", "0OFFLOAD2", "1RELOAD0",
                           "0UNSHARD", "0RESHARD", "0REDUCE_GRAD"})
    to.emplace_back("cells", with_choice(0, each));
  for (const char* each : {"2F3.1", "2F3@1", "(0F7.1@1;7B3)"})
    to.emplace_back("cells", with_choice(1, each));
  to.emplace_back("costs", "f=1,b=2,i=1,w=1,message=0.25\nf.3=1.5 # all\n");
  to.emplace_back("sizes", "kept=4e6,activation=1e6\ngradient.2=5 # all\n");
  to.emplace_back("sizes", "parameters=1e9,kept.0=0");
  to.emplace_back("failure_policies", "process=restart:3/1h:30s,op=stop");
  to.emplace_back("failure_policies", "op=retry:3/10min,process=rehost");
  to.emplace_back("offloads", "0.5");
  to.emplace_back("offloads", "all=0.25,stage.0=1\nstage.3=0 # none\n");
  to.emplace_back(
    "costs",
    "unshard=1e3,reshard=2,offload=1,reload.0=2,reduce=1,norm=1,update=.5");
  to.emplace_back("costs",
                  "message=0.1,bytes=4e6,bandwidth=1e8,bandwidth.3-4=1e7,"
                  "message.0-1=2");
}

std::string npy(const std::string& type, int width) {
  auto header = fmt::format(
    "{{'descr': '{}', 'fortran_order': False, 'shape': (4,), }}", type);
  header.resize(118, ' ');
  return "\x93NUMPY" + std::string("\x01\x00\x76\x00", 4) + header
         + std::string(static_cast<std::size_t>(4 * width), '\x01');
}

std::string llm_c() {
  const std::array<std::int32_t, 3> header{20240520, 1, 2};
  std::string bytes(1024, 0);
  std::memcpy(bytes.data(), header.data(), sizeof(header));
  return bytes + "abcd";
}

void add_token_files(seed_list& to) {
  to.emplace_back("token_files", with_choice(0, "some text"));
  to.emplace_back("token_files", with_choice(1, llm_c()));
  to.emplace_back("token_files", with_choice(2, "abcd"));
  for (const auto& [type, width] :
       {std::pair{"|u1", 1}, {"<u2", 2}, {"<i4", 4}, {"<u4", 4}, {"<i8", 8}})
    to.emplace_back("token_files", with_choice(3, npy(type, width)));
  to.emplace_back("token_files", with_choice(4, npy("<u2", 2)));
}

void add_files(seed_list& to) {
  const temporary_folder folder;
  write_safetensors(folder / "parameters",
                    {{"a", at::zeros({2, 3})}, {"b", at::zeros({0})}},
                    {{"format", "pt"}});
  to.emplace_back("safetensors", content(folder / "parameters"));
  make_certificates(folder / "set");
  for (const int file : {0, 1, 2})
    to.emplace_back(
      "certificates",
      with_choice(file,
                  content(folder
                          / std::array{"set/authority.pem", "set/member.pem",
                                       "set/member.key"}[std::size_t(file)])));
}

/// What launchers and the system tell a process.
void add_surroundings(seed_list& to) {
  to.emplace_back("environments",
                  "RANK=1\nWORLD_SIZE=2\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\n"
                  "MASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\nTROUPE_JOB=a\n");
  to.emplace_back("environments",
                  "SLURM_PROCID=1\nSLURM_STEP_NUM_TASKS=7\nSLURM_LOCALID=1\n"
                  "SLURM_STEP_TASKS_PER_NODE=2(x3),1\n");
  to.emplace_back("environments",
                  "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=2\n"
                  "OMPI_COMM_WORLD_LOCAL_RANK=0\n");
  to.emplace_back("environments",
                  "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\n"
                  "MPI_LOCALNRANKS=2\nHYDI_CONTROL_FD=0\n");
  to.emplace_back("environments", "PMIX_RANK=1\nFLUX_TASK_RANK=1\n");
  to.emplace_back("control_groups",
                  "0::/\n\n31 23 0:28 / / rw shared:4 - cgroup2 cgroup2 rw\n");
  to.emplace_back(
    "control_groups",
    "4:memory:/a/b\n2:cpu,cpuacct:/a\n\n35 31 0:32 /a /c\\040g rw "
    "- cgroup cgroup rw,memory\n");
}

void add_texts(seed_list& to) {
  for (const char* each :
       {"gap:every=10,match=blocks*,histogram=true", "gap:sample=0.01,seed=7",
        "gradient_dump:start=1,end=2,every=3,save_first_n=4",
        "overflow:frames=21,trace=0,3,abort_after=9,underflow_share=0,stop="
        "true",
        "overflow:reading=watch,every=2,match=blocks*", "overflow:reading=full",
        "stability:window=128,rolling=10000,sigmas=6",
        "throughput:every=1,peak_flops=1e12,straggler=2",
        "timeline:svg=a,trace=b,steps=32,anomalies=true",
        "retro:folder=a,steps=8,match=*,tensors=true,nonfinite=false,max_abs=2,"
        "loss_factor=3,dumps=4",
        "budget:share=1,longest=1000"})
    to.emplace_back("specs", with_choice(0, each));
  for (const char* each :
       {"terminal:match=gap*,top=10", "json:a", "csv:a", "tensorboard:a",
        "prometheus:localhost:80", "prometheus:[::1]:80,token_file=a"})
    to.emplace_back("specs", with_choice(1, each));
  for (const char* each :
       {"tok.*,pos.*:lr*0.5,weight-decay=0", "blocks.[!0-2].*:frozen"})
    to.emplace_back("specs", with_choice(2, each));
  to.emplace_back("lab_requests",
                  R"({"name":"zb_v","ranks":4,"stages_per_rank":2,)"
                  R"("microbatches":8,"costs":"f=1,b=2","sizes":"kept=1",)"
                  R"("costs_of_rank":true,"transport":"credited",)"
                  R"("memory_limit":1e9,"credits":2,"shared_fifo":false})");
  to.emplace_back("lab_requests",
                  R"({"source":"rules","ranks":2,"microbatches":4,)"
                  R"("rules":{"prefer":["backward","deep_stage"],)"
                  R"("in_flight":4,"falls_by_rank":true,)"
                  R"("split_backward":true,"placement":"looped"}})");
  to.emplace_back("lab_requests",
                  R"({"source":"text","text":"0F0,0B0\n1F0,1B0\n"})");
  to.emplace_back("configurations",
                  "ranks = 4\nlr = 1e-3\nplain = true\nschedule = \"1f1b\"\n"
                  "text = [\"a\", 'b'] # two\n");
  to.emplace_back("configurations", "ranks = 99\n[table]\na = 1979-05-27\n");
  to.emplace_back(
    "prompts",
    with_choice(0,
                "{\"text\": \"In the\", \"max_tokens\": 20, \"top_k\": 5}\n"
                "{\"ids\": [73, 110], \"temperature\": 0.5, \"top_p\": 0.9, "
                "\"seed\": 3}\n"));
  to.emplace_back("prompts", with_choice(3, "5 17\n\n999\r\n"));
}

void add_manifests(seed_list& to) {
  const manifest full{
    .run = "5e1d",
    .progress = {20, 160, 1024, 3},
    .settings = {{"seed", "1"}, {"microbatch-size", "2"}},
    .aliases = {{"head.weight", "tok.weight"}},
    .files = {{"part-00000.safetensors", 4096, std::string(64, 'a')},
              {"part-00001.safetensors", 0, std::string(64, '0')}}};
  to.emplace_back("manifests", to_json(full));
  to.emplace_back("manifests", to_json(manifest{}));
}

/// Three sequences of 16-bit tokens, in two documents.
void add_megatron_index(seed_list& to) {
  std::string bytes("MMIDIDX\0\0", 9);
  const auto append = [&](auto value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(std::uint64_t{1});
  append(std::uint8_t{8});
  append(std::uint64_t{3});
  append(std::uint64_t{2});
  for (const std::int32_t length : {3, 0, 2})
    append(length);
  for (const std::int64_t offset : {0, 6, 6})
    append(offset);
  for (const std::int64_t document : {0, 3})
    append(document);
  to.emplace_back("token_files", with_choice(5, bytes));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> seeds() {
  seed_list all;
  for (const auto add :
       {add_frames, add_rendezvous, add_job_messages, add_lists, add_rings,
        add_http_requests, add_live, add_addresses, add_schedules,
        add_token_files, add_files, add_texts, add_surroundings, add_manifests,
        add_megatron_index})
    add(all);
  return all;
}

}  // namespace troupe::testing
