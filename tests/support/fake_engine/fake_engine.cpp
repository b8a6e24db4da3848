// strata-fake-engine: stands in for the engine in every test of the server. Without a script it is
// a plausible engine; with one it plays failures. Options of the real engine that it does not know
// are passed over together with their value, so that a server may start it unchanged.
//
//   strata-fake-engine [--script FILE | --do STATEMENT]... [--starts FILE] [--NAME VALUE]...
//
// --do        one statement of the script; several make a script line by line
// --starts    a file that gets one byte per start; `on N` and `from N` look at its size
// names of the generic mode:
//   --context --vocab --load-ms --load-mib --eos
//   --tokens-per-second --prompt-per-second   pace of writing and reading; 0 = at once
//   --prompt-chunk      tokens between two PP lines
//   --answer-tokens     the answer ends there with finish stop; else at max_new with length
//   --answer            canary (id * 1000 + k), echo (the prompt), or ids:1,2,3 in turn
//
// Generic mode = the script "load <load-ms>", "ready", "serve". It keeps the live conversation: a
// prompt that continues it is reused (RESUME, DONE 8), every other one is a switch.
//
// A script is one statement a line; '#' begins a comment line. $ID is the id of the last GEN taken,
// $ID1..$ID9 those of the first nine, $START the number of this start.
//   load [MS]               LOAD lines spread over MS
//   ready                   INFO and READY
//   serve [N]               answer N commands, without N all that come
//   await [VERB]            take commands until VERB (GEN) came
//   tokens [N [ID]]         N canary T lines
//   done [FINISH [ID]]      a DONE line
//   line TEXT               one line on stdout
//   raw TEXT                bytes on stdout; knows \n \r \\ \xHH
//   err TEXT                one line on stderr
//   flood STREAM BYTES      whole lines of foreign text on stdout or stderr
//   endless BYTES           that many bytes on stdout without an LF
//   sleep MS                waits, answers PING meanwhile
//   hang MS                 waits and reads nothing
//   spin MS                 burns CPU and reads nothing
//   grow MIB                takes so much memory and keeps it
//   pings on|off            whether PING is answered from now on
//   parked [FIELDS]         CACHE is answered at once with these rows; alone: with none
//   ignore WORD...          signals by name or number; eof, quit, stop
//   close STREAM...         stdin, stdout, stderr
//   grandchild MS [escape]  a process that holds the streams, in a session of its own with escape
//   fds                     the open descriptors, to stderr
//   status NAME...          lines of /proc/self/status, to stderr
//   env NAME...             variables of the environment, to stderr
//   exit CODE               leaves at once
//   die SIGNAL              ends by that signal, without a core
//   repeat [N] ... end      on N ... end (the Nth start)      from N ... end (it and later ones)
// When a script is over the engine serves as in the generic mode; `exit` ends it before.
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fake_engine/engine_story.hpp"
#include "tests/support/fake_engine/player.hpp"
#include "tests/support/fake_engine/script.hpp"
#include "tests/support/fake_engine/wire.hpp"

namespace {

using namespace strata::fake;

struct CommandLine {
    StoryOptions story;
    std::string script;
    std::string starts_path;
};

std::string file_text(const std::string& path) {
    std::ifstream in(path);
    if (!in) bad_script("cannot read " + path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

CommandLine read_command_line(int argc, char** argv) {
    CommandLine line;
    StoryOptions& story = line.story;
    const std::map<std::string, std::function<void(const std::string&)>> options = {
        {"--script", [&](const std::string& v) { line.script += file_text(v) + "\n"; }},
        {"--do", [&](const std::string& v) { line.script += v + "\n"; }},
        {"--starts", [&](const std::string& v) { line.starts_path = v; }},
        {"--context", [&](const std::string& v) { story.context = std::stoll(v); }},
        {"--max-context", [&](const std::string& v) { story.context = std::stoll(v); }},
        {"--vocab", [&](const std::string& v) { story.vocab = std::stoll(v); }},
        {"--load-ms", [&](const std::string& v) { story.load_ms = std::stoll(v); }},
        {"--load-mib", [&](const std::string& v) { story.load_mib = std::stoll(v); }},
        {"--tokens-per-second", [&](const std::string& v) { story.tokens_per_s = std::stod(v); }},
        {"--prompt-per-second", [&](const std::string& v) { story.prompt_per_s = std::stod(v); }},
        {"--prompt-chunk", [&](const std::string& v) { story.prompt_chunk = std::stoll(v); }},
        {"--answer-tokens", [&](const std::string& v) { story.answer_tokens = std::stoll(v); }},
        {"--eos", [&](const std::string& v) { story.eos = std::stoll(v); }},
        {"--answer", [&](const std::string& v) { story.answer = v; }},
    };
    for (int i = 1; i < argc; ++i) {
        const auto found = options.find(argv[i]);
        if (found == options.end() || i + 1 == argc) continue;
        found->second(argv[++i]);
    }
    return line;
}

std::int64_t count_start(const std::string& path) {
    if (path.empty()) return 1;
    std::ofstream(path, std::ios::app) << '.';
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 ? static_cast<std::int64_t>(facts.st_size) : 1;
}

extern "C" void leave_at_once(int) {
    ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
    const CommandLine line = read_command_line(argc, argv);
    ::signal(SIGTERM, leave_at_once);
    Wire wire;
    Story story(wire, line.story);
    Player player(wire, story, count_start(line.starts_path));
    if (line.script.empty()) {
        story.print_load(line.story.load_ms);
        story.print_info_and_ready();
    } else {
        player.play(parse_script(line.script));
    }
    player.serve(Statement{});
}
