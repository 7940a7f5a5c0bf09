// Perfetto's trace processor, asked line by line: a JSON request on stdin, its JSON answer on stdout.
//
//   node processor.js FOLDER     where FOLDER holds engine_bundle.js and the .wasm files of Perfetto's UI
//   {"load": PATH}   ->  {}                      one trace for a process
//   {"query": SQL}   ->  {"rows": [[...], ...]}
//
// What fails is answered by {"error": TEXT}. processor.py is what tests use.
"use strict";
const fs = require("fs");
const path = require("path");

const APPEND = 1, FINALIZE = 2, QUERY = 3; // methods of a request, as trace_processor.proto numbers them
const TRACE_BYTES = 101, QUERY_ARGS = 103; // fields of a request
const FATAL_ERROR = 5, APPEND_RESULT = 201, QUERY_RESULT = 203, FINALIZE_RESULT = 212; // and of a reply
const SLICE_BYTES = 8 << 20;

function startEngine(folder) {
  // The engine is a web worker that fetches its wasm: it gets stand-ins for what a browser has and Node has not, and
  // sees nothing of Node. Not in a vm context: it relies on catching a TypeError of its own realm.
  class XMLHttpRequest {
    open(_, url) { this.url = url; }
    send() { this.response = fs.readFileSync(path.join(folder, path.basename(this.url))); }
  }
  const self = { location: { href: "http://perfetto/" } };
  const log = (...words) => process.stderr.write(words.join(" ") + "\n");
  const world = {
    self, XMLHttpRequest, WorkerGlobalScope: function () {}, location: self.location,
    console: { log, warn: log, error: log, info: log, debug: log },
    importScripts: undefined, process: undefined, window: undefined, document: undefined,
  };
  const source = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
  new Function(...Object.keys(world), source)(...Object.values(world));
  const replies = [];
  const port = { postMessage: (bytes) => replies.push(Buffer.from(bytes)) };
  self.onmessage({ data: port });
  let seq = 0;
  // The engine answers before the call returns, in pieces of any size.
  return (method, ...argument) => {
    replies.length = 0;
    const request = bytesOf(1, Buffer.concat([number(1, ++seq), number(2, method), ...argument]));
    port.onmessage({ data: new Uint8Array(request) });
    return [...fieldsOf(Buffer.concat(replies))].map(([, message]) => [...fieldsOf(message)]);
  };
}

function varint(value) {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
}

const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const bytesOf = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [BigInt.asIntN(64, value), at];
  }
}

function* varints(bytes) {
  for (let at = 0, value; at < bytes.length; yield value) [value, at] = readVarint(bytes, at);
}

// Each field of a message: its number, and its value as a BigInt or as bytes.
function* fieldsOf(bytes) {
  for (let at = 0, key, value; at < bytes.length; yield [Number(key >> 3n), value]) {
    [key, at] = readVarint(bytes, at);
    const type = key & 7n;
    if (type === 1n || type === 5n) value = type === 1n ? 8n : 4n; // a fixed number, of so many bytes
    else [value, at] = readVarint(bytes, at);
    if (type !== 0n) [value, at] = [bytes.subarray(at, at + Number(value)), at + Number(value)];
  }
}

const allOf = (fields, field) => fields.filter(([found]) => found === field).map(([, value]) => value);

// With a point, so that it is read as a float again.
const floatOf = (value) => (Number.isInteger(value) ? value.toFixed(1) : String(value));

// The cells of a result's batch, as JSON: written here, since JSON.stringify has no 64-bit integers.
function cellsOf(batch) {
  const fields = [...fieldsOf(batch)];
  const types = allOf(fields, 1).flatMap((packed) => [...varints(packed)]);
  const integers = allOf(fields, 2).flatMap((packed) => [...varints(packed)]);
  const doubles = allOf(fields, 3).flatMap((packed) =>
    Array.from({ length: packed.length / 8 }, (_, index) => packed.readDoubleLE(index * 8)));
  const strings = allOf(fields, 5).flatMap((joined) => joined.toString("utf8").split("\0"));
  let [integer, double, string] = [0, 0, 0];
  return types.map((type) => {
    if (type === 1n) return "null";
    if (type === 2n) return String(integers[integer++]);
    if (type === 3n) return floatOf(doubles[double++]);
    if (type === 4n) return JSON.stringify(strings[string++]);
    throw new Error("a cell of the result is neither null, a number nor text");
  });
}

function refuse(fields, field) {
  const told = allOf(fields, field).flatMap((result) => allOf([...fieldsOf(result)], 2));
  const error = [...allOf(fields, FATAL_ERROR), ...told].find((text) => text.length);
  if (error) throw new Error(error.toString("utf8"));
}

function load(ask, file) {
  const source = fs.openSync(file, "r");
  const slice = Buffer.alloc(SLICE_BYTES);
  for (let size; (size = fs.readSync(source, slice, 0, SLICE_BYTES, null)) > 0; )
    for (const reply of ask(APPEND, bytesOf(TRACE_BYTES, slice.subarray(0, size)))) refuse(reply, APPEND_RESULT);
  for (const reply of ask(FINALIZE)) refuse(reply, FINALIZE_RESULT);
  return "{}";
}

function query(ask, sql) {
  const replies = ask(QUERY, bytesOf(QUERY_ARGS, bytesOf(1, Buffer.from(sql, "utf8"))));
  for (const reply of replies) refuse(reply, QUERY_RESULT);
  const results = replies.flatMap((reply) => allOf(reply, QUERY_RESULT)).map((result) => [...fieldsOf(result)]);
  const width = results.flatMap((result) => allOf(result, 1)).length;
  const cells = results.flatMap((result) => allOf(result, 3)).flatMap(cellsOf);
  const count = width && cells.length / width;
  const rows = Array.from({ length: count }, (_, row) => cells.slice(row * width, (row + 1) * width));
  return `{"rows":[${rows.map((row) => `[${row.join(",")}]`).join(",")}]}`;
}

const ask = startEngine(process.argv[2]);
// It is ready when this turn of the event loop is over.
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try {
    const request = JSON.parse(line);
    answer = "load" in request ? load(ask, request.load) : query(ask, request.query);
  } catch (error) {
    answer = JSON.stringify({ error: error.message });
  }
  process.stdout.write(answer + "\n");
});
