// A strata-serve with the demo model and the real engine, on a free port, for one test file.
import { spawn } from "node:child_process";
import { once } from "node:events";

const bin = process.env.STRATA_BIN_DIR;

export async function startServer(options = []) {
    const child = spawn(`${bin}/strata-serve`, ["--model", "demo", "--port", "0", "--engine",
        `${bin}/strata-engine`, ...options], { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    child.stderr.setEncoding("utf8");
    child.stderr.on("data", (text) => { log += text; });
    const deadline = Date.now() + 120_000;
    let address = null;
    for (;;) {
        address ??= /listening on (http:\/\/\S+);/.exec(log)?.[1];
        if (address && (await fetch(`${address}/health`)).status === 200) break;
        if (child.exitCode !== null || Date.now() > deadline) throw new Error(`no server: ${log}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return {
        address,
        log: () => log,
        engineKill() {
            const pid = Number(/.*engine \d+ started, process (\d+)/s.exec(log)[1]);
            process.kill(pid, "SIGKILL");
        },
        async stop() {
            child.kill("SIGTERM");
            if (child.exitCode === null) await once(child, "exit");
        },
    };
}
