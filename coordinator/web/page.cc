#include "coordinator/web/page.h"

namespace paceline {

const char* const kPageSecurityPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Paceline</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
  #log p { white-space: pre-wrap; margin: .6rem 0; padding: .5rem .8rem; border-radius: .5rem; }
  #log .user { background: #e8eefc; } #log .assistant { background: #f3f3f0; } #log .error { color: #a00; }
  form { display: flex; gap: .5rem; } textarea { flex: 1; font: inherit; } small { color: #666; }
</style>
</head>
<body>
<h1>Paceline</h1>
<p><small id="model">asking for the model</small>
<label><small>key <input id="key" type="password" size="12" autocomplete="off"></small></label></p>
<div id="log"></div>
<form id="form">
  <textarea id="text" rows="2" placeholder="Say something"></textarea>
  <button id="send">Send</button>
</form>
<p><small id="rate"></small></p>
<script>
const $ = id => document.getElementById(id);
const base = location.pathname.replace(/\/+$/, "");
const messages = [];
let running = null;
function headers() {
  const out = {"content-type": "application/json"};
  if ($("key").value) out.authorization = "Bearer " + $("key").value;
  return out;
}
function add(role, text) {
  const p = document.createElement("p");
  p.className = role; p.textContent = text;
  $("log").append(p);
  return p;
}
async function showModel() {
  const answer = await fetch(base + "/v1/models", {headers: headers()});
  $("model").textContent = answer.ok ? (await answer.json()).data[0].id : "type the key to see the model";
}
async function ask() {
  running = new AbortController();
  $("send").textContent = "Stop";
  const p = add("assistant", "");
  const start = performance.now();
  let text = "", tokens = 0;
  try {
    const answer = await fetch(base + "/v1/chat/completions", {
      method: "POST", headers: headers(), signal: running.signal,
      body: JSON.stringify({messages, stream: true, stream_options: {include_usage: true}})});
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const {value, done} = await reader.read();
      if (done) break;
      rest += value;
      const events = rest.split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const data = event.trim().slice(6);
        if (!data || data === "[DONE]") continue;
        const chunk = JSON.parse(data);
        if (chunk.error) throw new Error(chunk.error.message);
        if (chunk.choices.length) text += chunk.choices[0].delta.content || "";
        if (chunk.usage) tokens = chunk.usage.completion_tokens;
        p.textContent = text;
      }
    }
    const seconds = (performance.now() - start) / 1000;
    $("rate").textContent = `${tokens} tokens, ${(tokens / seconds).toFixed(1)} per second`;
  } catch (error) {
    if (error.name !== "AbortError") add("error", error.message);
  }
  messages.push({role: "assistant", content: text});
  running = null;
  $("send").textContent = "Send";
}
$("form").onsubmit = event => {
  event.preventDefault();
  if (running) return running.abort();
  const text = $("text").value.trim();
  if (!text) return;
  $("text").value = "";
  messages.push({role: "user", content: text});
  add("user", text);
  ask();
};
$("text").onkeydown = event => {
  if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); $("form").requestSubmit(); }
};
$("key").onchange = showModel;
showModel();
</script>
</body>
</html>
)html";

}  // namespace paceline
