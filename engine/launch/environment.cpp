#include "troupe/engine/launch/environment.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

namespace {

/// A launcher's names for the same variables.
struct names {
  const char* launcher;
  const char* process;
  const char* processes;
  const char* local_process;
  const char* local_processes;
};

constexpr names torch{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
                      "LOCAL_WORLD_SIZE"};
constexpr names slurm{"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                      "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"};
constexpr names open_mpi{"Open MPI", "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE"};

// MPICH's Hydra, which is Intel's as well, and Flux; Cray has other local
// names.
constexpr names mpich{"MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
                      "MPI_LOCALNRANKS"};
constexpr names cray{"MPI", "PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK",
                     "PMI_LOCAL_SIZE"};

/// Each of them tells that a launcher started this process.
constexpr std::array signs{"OMPI_COMM_WORLD_RANK",
                           "PMI_RANK",
                           "PMI_SIZE",
                           "PMIX_RANK",
                           "PMI_ID",
                           "MPI_LOCALRANKID",
                           "PMI_LOCAL_RANK",
                           "PALS_RANKID",
                           "FLUX_TASK_RANK",
                           "MV2_COMM_WORLD_RANK",
                           "ALPS_APP_PE",
                           "JSM_NAMESPACE_RANK",
                           "LOCAL_RANK"};

template <class Number>
Number number_of(const std::string& name, const std::string& text) {
  const auto value = parse_number<Number>(text);
  if (!value)
    fail(error_code::invalid_argument,
         "the environment has {}={}, which is not a whole number in range",
         name, printable(text));
  return *value;
}

class reading {
 public:
  reading(const environment_reader& read, const names& variables)
    : read_(read), names_(variables) {}

  launch_environment all() const {
    launch_environment place;
    place.launcher = names_.launcher;
    place.process = number(names_.process);
    place.processes = number(names_.processes);
    place.counted_by = fmt::format("{}={}", names_.processes, place.processes);
    place.local_process = number_or(names_.local_process, 0);
    place.local_processes = local_processes(place.processes);
    check(place);
    return place;
  }

 private:
  std::int32_t number(const char* name) const {
    const auto text = read_(name);
    if (!text)
      fail(error_code::invalid_argument,
           "{} is missing in the environment, although {} is set; start the "
           "processes with one launcher, or with `troupe launch`",
           name,
           name == std::string(names_.process) ? names_.processes
                                               : names_.process);
    return number_of<std::int32_t>(name, *text);
  }

  std::int32_t number_or(const char* name, std::int32_t otherwise) const {
    const auto text = read_(name);
    return text ? number_of<std::int32_t>(name, *text) : otherwise;
  }

  /// Slurm gives a list such as `2(x3),1`; its first number suffices to tell
  /// one machine from several. Without one, as with Kubeflow, the address of
  /// process 0 decides.
  std::int32_t local_processes(std::int32_t processes) const {
    const auto text = read_(names_.local_processes);
    if (!text)
      return names_loopback(read_("MASTER_ADDR").value_or("localhost"))
               ? processes
               : 1;
    return number_of<std::int32_t>(names_.local_processes,
                                   text->substr(0, text->find_first_of("(,")));
  }

  void check(const launch_environment& place) const {
    constexpr std::int32_t most_processes = 1 << 16;
    if (place.processes > most_processes)
      fail(error_code::invalid_argument,
           "the environment has {}={}; a job has at most {} processes",
           names_.processes, place.processes, most_processes);
    if (place.processes < 1 || place.process < 0
        || place.process >= place.processes)
      fail(error_code::invalid_argument,
           "the environment has {}={} and {}={}; the first must be at least 0 "
           "and less than the second",
           names_.process, place.process, names_.processes, place.processes);
    if (place.local_processes < 1 || place.local_processes > place.processes)
      fail(error_code::invalid_argument,
           "the environment has {}={} and {}={}; the first must be from 1 to "
           "the second",
           names_.local_processes, place.local_processes, names_.processes,
           place.processes);
  }

  const environment_reader& read_;
  const names& names_;
};

/// A name that the processes of one job share, and the variables that gave it.
struct named_job {
  std::string name;
  std::string by;
};

/// Processes inherit a socket of their launcher, whose number tells whose they
/// are. Empty: there is none.
std::string inherited_socket(const std::string& descriptor) {
  struct stat found {};
  const auto file = parse_number<int>(descriptor);
  return file && ::fstat(*file, &found) == 0 && S_ISSOCK(found.st_mode)
           ? std::to_string(found.st_ino)
           : "";
}

/// Uses only the launcher's own variables: it may run within another's job.
named_job job_of(const environment_reader& read, const names& variables) {
  const auto said = [&](const char* name) { return read(name).value_or(""); };
  if (&variables == &slurm)
    return {said("SLURM_JOB_ID") + "." + said("SLURM_STEP_ID"),
            "SLURM_JOB_ID, SLURM_STEP_ID"};
  if (&variables == &open_mpi)
    return {said("PMIX_NAMESPACE"), "PMIX_NAMESPACE"};
  if (&variables != &torch) {
    for (const auto* each :
         {"PMI_JOBID", "I_MPI_HYDRA_UUID", "FLUX_JOB_ID", "PALS_APID"})
      if (read(each))
        return {said(each), each};
    return {inherited_socket(said("HYDI_CONTROL_FD")), "launcher"};
  }
  const auto run = said("TORCHELASTIC_RUN_ID");
  if (run.empty())
    return {said("TROUPE_JOB"), "MASTER_ADDR, MASTER_PORT"};
  return {run + " attempt " + said("TORCHELASTIC_RESTART_COUNT"),
          "TORCHELASTIC_RUN_ID, TORCHELASTIC_RESTART_COUNT"};
}

/// Where nothing names the job: what started its processes, unique among those
/// that share a folder for sockets.
std::string parent_process() {
  struct stat processes {};
  ::stat("/proc/self/ns/pid", &processes);
  return fmt::format("parent {} of {}", ::getppid(), processes.st_ino);
}

/// For launchers that give hosts, but no port.
void add_first_host(launch_environment& environment,
                    const environment_reader& read, const names& variables) {
  std::optional<std::string> host;
  if (&variables == &slurm) {
    environment.said_by = "SLURM_STEP_NODELIST";
    host = first_of_node_list(read("SLURM_STEP_NODELIST").value_or(""));
  } else if (&variables == &open_mpi) {
    environment.said_by = "OMPI_MCA_orte_hnp_uri";
    host = address_of_mpirun(read("OMPI_MCA_orte_hnp_uri").value_or(""));
  }
  environment.host = host.value_or("");
  environment.port = host ? port_of_job(environment.job) : 0;
}

void add_meeting_point(launch_environment& environment,
                       const environment_reader& read, const names& variables) {
  const auto host = read("MASTER_ADDR");
  const auto port = read("MASTER_PORT");
  if (!host && !port)
    return add_first_host(environment, read, variables);
  environment.said_by = "MASTER_ADDR and MASTER_PORT";
  environment.host = host.value_or("");
  if (port)
    environment.port = number_of<std::uint16_t>("MASTER_PORT", *port);
  environment.agent_store = read("TORCHELASTIC_USE_AGENT_STORE") == "True";
}

/// Whether it started this process, and not only a step or a shell around it.
bool is_by(const environment_reader& read, const names& means) {
  if (&means == &torch)
    return read(means.process) || read(means.processes);
  // A Slurm batch script has a rank as well, but no step.
  if (!read(means.process) || !read(means.processes))
    return false;
  // srun may set these, too, and its own variables tell where process 0 is.
  if ((&means == &cray || &means == &mpich)
      && read("PMI_JOBID") == job_of(read, slurm).name)
    return false;
  return &means != &cray || read(means.local_process);
}

std::string doubt_about(const environment_reader& read) {
  for (const auto* sign : signs)
    if (const auto value = read(sign))
      return fmt::format(
        "{}={}: a launcher seems to have started several processes, but no "
        "variable that troupe reads tells how many, so this one runs alone; "
        "if they are one job, set RANK and WORLD_SIZE",
        sign, printable(*value));
  return {};
}

}  // namespace

launch_environment read_environment(const environment_reader& read) {
  // mpirun within a Slurm step passes Slurm's variables on: its own take
  // precedence.
  for (const auto* means : {&torch, &open_mpi, &cray, &mpich, &slurm}) {
    if (!is_by(read, *means))
      continue;
    auto place = reading(read, *means).all();
    if (means == &torch && !read("TORCHELASTIC_RUN_ID"))
      place.launcher = read("TROUPE_JOB") ? "troupe launch" : "the environment";
    const auto job = job_of(read, *means);
    place.job = job.name;
    place.named_by = job.by;
    if (means == &slurm)
      place.if_alone =
        " A shell of a step with several tasks is one of them: start it with "
        "`srun --pty -n 1`, or troupe with srun.";
    place.elastic_run =
      means == &torch ? read("TORCHELASTIC_RUN_ID").value_or("") : "";
    add_meeting_point(place, read, *means);
    if (place.job.empty() && place.host.empty()) {
      place.job = parent_process();
      place.named_by = "parent process";
      place.if_no_address =
        " Without MASTER_ADDR and MASTER_PORT only processes that one process, "
        "such as a shell, has started find each other: set both for all, or "
        "give --rendezvous.";
    }
    return place;
  }
  launch_environment alone;
  alone.doubt = doubt_about(read);
  return alone;
}

launch_environment read_environment() {
  return read_environment(
    [](const std::string& name) -> std::optional<std::string> {
      const auto* value = std::getenv(name.c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    });
}

namespace {

constexpr std::size_t longest_name = 255;  // RFC 1035

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= longest_name
         && std::ranges::all_of(text, [](unsigned char c) {
              return c < 128
                     && (std::isalnum(c) || c == '-' || c == '.' || c == '_'
                         || c == ':');
            });
}

}  // namespace

std::optional<std::string> first_of_node_list(std::string_view list) {
  std::string name;
  while (!list.empty() && list.front() != ',') {
    if (list.front() != '[') {
      name += list.front();
      list.remove_prefix(1);
      continue;
    }
    const auto end = list.find(']');
    if (end == std::string_view::npos)
      return {};
    const auto range = list.substr(1, end - 1);
    const auto first = range.substr(0, range.find_first_of(",-"));
    if (first.empty())
      return {};
    name += first;
    list.remove_prefix(end + 1);
  }
  if (!is_name(name))
    return {};
  return name;
}

std::optional<std::string> address_of_mpirun(std::string_view uri) {
  for (const std::string_view kind : {"tcp://", "tcp6://"}) {
    const auto begin = uri.find(kind);
    if (begin == std::string_view::npos)
      continue;
    auto rest = uri.substr(begin + kind.size());
    const bool in_brackets = rest.starts_with('[');
    if (in_brackets)
      rest.remove_prefix(1);
    const auto address =
      rest.substr(0, rest.find_first_of(in_brackets ? ",]" : ",:;"));
    if (is_name(address))
      return in_brackets ? "[" + std::string(address) + "]"
                         : std::string(address);
  }
  return {};
}

std::uint16_t port_of_job(std::string_view job) {
  std::uint32_t hash = 0x811c9dc5U;  // FNV-1a
  for (const auto c : job)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193U;
  return static_cast<std::uint16_t>(20000 + hash % 10000);
}

}  // namespace troupe
