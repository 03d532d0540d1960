// Speak with kokoro.js: `node kokoro_js_player.mjs JOB PLACE PACKAGES`. It writes the audio of request i as PLACE/i.f32.
// The package is copied without its own voices, and ours lie there under names that it knows.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [job, place, packages] = [JSON.parse(fs.readFileSync(process.argv[2])), process.argv[3], process.argv[4]];
const own = path.join(place, "kokoro-js");
fs.symlinkSync(packages, path.join(place, "node_modules"));
for (const part of ["dist", "package.json"]) {
  fs.cpSync(path.join(packages, "kokoro-js", part), path.join(own, part), { recursive: true });
}
fs.mkdirSync(path.join(own, "voices"));
const transformers = path.join(packages, "@huggingface/transformers");
const exported = JSON.parse(fs.readFileSync(path.join(transformers, "package.json"))).exports.node.import;
const { env } = await import(pathToFileURL(fs.realpathSync(path.join(transformers, exported.default ?? exported))));
env.allowRemoteModels = false;
env.localModelPath = path.dirname(job.folder);
const { KokoroTTS } = await import(pathToFileURL(path.join(own, "dist", "kokoro.js")));
const dtype = { "model.onnx": "fp32", "model_fp16.onnx": "fp16", "model_quantized.onnx": "q8" };
const file = fs.readdirSync(path.join(job.folder, "onnx"))[0];
const options = { dtype: dtype[file], device: "cpu" };
const speaker = await KokoroTTS.from_pretrained(path.basename(job.folder), options);
const borrowed = Object.keys(speaker.voices);
for (const { voice, number } of job.requests) {
  fs.copyFileSync(path.join(job.folder, "voices", `${voice}.bin`), path.join(own, "voices", `${borrowed[number]}.bin`));
}
for (const [number, request] of job.requests.entries()) {
  const { input_ids } = speaker.tokenizer(request.symbols, { truncation: true });
  const made = await speaker.generate_from_ids(input_ids, { voice: borrowed[request.number], speed: request.speed });
  fs.writeFileSync(path.join(place, `${number}.f32`), Buffer.from(Float32Array.from(made.audio).buffer));
}
