// A transparent proxy between a client program and warden that keeps what
// passed. A client does not tell which replica answered it; the headers of the
// answers do.
import { createServer, request } from "node:http";

// record listens on a loopback port and passes everything on to target. amend
// may change each line of an answer.
export async function record(target, amend = (line) => line) {
  const exchanges = [];
  const server = createServer((req, res) => pass(target, req, res, exchanges, amend));
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    exchanges,
    // turns are the requests that ask for an answer, in order of arrival.
    turns: () => exchanges.filter((e) => e.method === "POST" && !e.path.includes("count_tokens")),
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function pass(target, req, res, exchanges, amend) {
  const exchange = {
    method: req.method, path: req.url, headers: req.headers, at: Date.now(),
    body: null, size: 0, status: 0, replica: "", reason: "", answer: "", gone: 0,
  };
  exchanges.push(exchange);
  const to = new URL(req.url, target);
  const upstream = request(to, { method: req.method, headers: { ...req.headers, host: to.host } }, (answer) => {
    exchange.status = answer.statusCode;
    exchange.replica = answer.headers["x-warden-replica"] ?? "";
    exchange.reason = answer.headers["x-warden-reason"] ?? "";
    exchange.retryAfter = answer.headers["retry-after"];
    const { "content-length": _, ...headers } = answer.headers; // an amended line has another length
    res.writeHead(answer.statusCode, headers);
    let rest = "";
    answer.setEncoding("utf8").on("data", (chunk) => {
      exchange.answer += chunk;
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      if (lines.length) res.write(lines.map((line) => `${amend(line)}\n`).join(""));
    });
    answer.once("end", () => res.end(rest && amend(rest)));
    answer.once("error", () => res.destroy()); // a broken answer breaks here too
  });
  upstream.once("error", () => res.destroy());
  res.once("close", () => {
    if (res.writableFinished) return;
    exchange.gone = Date.now();
    upstream.destroy();
  });
  const chunks = [];
  req.on("data", (chunk) => chunks.push(chunk));
  req.once("end", () => {
    const body = Buffer.concat(chunks);
    exchange.size = body.length;
    if (body.length) exchange.body = JSON.parse(body);
    upstream.end(body);
  });
}

// events are the JSON objects of an answer: one, or one for each event of a stream.
export function events(exchange) {
  const text = exchange.answer;
  if (text.startsWith("{")) return [JSON.parse(text)];
  return text.split("\n").filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice("data: ".length)));
}

// cachedTokens is what the engine reports as read from its prefix cache, in
// the form of whichever API was asked.
export function cachedTokens(exchange) {
  let cached = 0;
  for (const event of events(exchange)) {
    const usage = event.usage ?? event.response?.usage ?? event.message?.usage;
    cached = usage?.cache_read_input_tokens ?? usage?.input_tokens_details?.cached_tokens ?? usage?.prompt_tokens_details?.cached_tokens ?? cached;
  }
  return cached;
}
