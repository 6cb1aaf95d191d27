// What the host's prompts say about memory: the section of the system prompt, and the flush before a
// compaction. Numbers and words come from shared.json, which is made of those of the Python side.

import { readFileSync } from "node:fs";

export const SHARED = JSON.parse(readFileSync(new URL("./shared.json", import.meta.url), "utf8"));
export const PLUGIN_ID = "memory-gateway";
const LARGEST_RESERVE = 0.25;
const TELL_WHAT_IS_MISSING =
  "Where a memory tool answers with `warning` or `action`, tell the user what they say; an unavailable memory has not been searched.";

/** Lines of the system prompt, for a run that has our tools. */
export function promptSection({ availableTools, citationsMode }) {
  if (!availableTools.has("memory_search") && !availableTools.has("memory_get")) return [];
  const { recall, cite, doNotCite } = SHARED.instructions;
  return ["## Memory", `${recall} ${citationsMode === "off" ? doNotCite : cite}`, TELL_WHAT_IS_MISSING, ""];
}

/** When the host lets an agent write down what should outlast a compaction, and with which words; null: never. */
export function flushPlan(config, nowMs = Date.now(), contextWindowTokens = undefined) {
  const places = [config?.plugins?.entries?.[PLUGIN_ID]?.config?.compaction, config?.agents?.defaults?.compaction];
  const flush = (name, read) => first(places.map((place) => read(place?.memoryFlush?.[name])));
  if (first(places.map((place) => flag(place?.memoryFlush?.enabled))) === false) return null;
  const day = dayIn(config?.agents?.defaults?.userTimezone, nowMs);
  const said = {
    soft: flush("softThresholdTokens", whole) ?? SHARED.flush.softThresholdTokens,
    reserve: first(places.map((place) => whole(place?.reserveTokensFloor))) ?? SHARED.flush.reserveTokensFloor,
  };
  const limits = [flush("forceFlushTranscriptBytes", bytes), first(places.map((place) => bytes(place?.maxActiveTranscriptBytes)))];
  return {
    ...withinWindow(said, contextWindowTokens),
    forceFlushTranscriptBytes: limits.filter((limit) => limit > 0).sort((one, other) => one - other)[0] ?? 0,
    model: flush("model", text),
    prompt: completed(flush("prompt", text) ?? SHARED.flush.prompt, day),
    systemPrompt: completed(flush("systemPrompt", text) ?? SHARED.flush.systemPrompt, day),
    relativePath: `memory/${day}.md`,
  };
}

/** The host compacts by the reserve of this plan as well: of a small window it must leave something. */
function withinWindow({ soft, reserve }, window) {
  if (!(window > 0)) return { softThresholdTokens: soft, reserveTokensFloor: reserve };
  const kept = Math.min(reserve, Math.floor(window * LARGEST_RESERVE));
  return { softThresholdTokens: Math.min(soft, Math.floor((window - kept) / 2)), reserveTokensFloor: kept };
}

function completed(words, day) {
  const { placeholder, silentReply, hint } = SHARED.flush;
  const dated = words.trim().replaceAll(placeholder, day);
  return dated.includes(silentReply) ? dated : `${dated}\n\n${hint}`;
}

function dayIn(timeZone, nowMs) {
  const format = (zone) => new Intl.DateTimeFormat("en-CA", { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" });
  try {
    return format(timeZone || undefined).format(new Date(nowMs));
  } catch {
    return format(undefined).format(new Date(nowMs)); // no such time zone
  }
}

function first(values) {
  return values.find((value) => value !== undefined);
}

function flag(value) {
  return typeof value === "boolean" ? value : undefined;
}

function text(value) {
  return typeof value === "string" && value.trim() ? value : undefined;
}

function whole(value) {
  return Number.isFinite(value) && value >= 0 ? Math.floor(value) : undefined;
}

const UNITS = { "": 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3, t: 1024 ** 4 };

function bytes(value) {
  if (typeof value !== "string") return whole(value);
  const match = /^(\d+(?:\.\d+)?)([kmgt]?)b?$/i.exec(value.trim());
  return match ? Math.round(Number(match[1]) * UNITS[match[2].toLowerCase()]) : undefined;
}
