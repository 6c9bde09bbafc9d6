// The page in headless Chromium, made by the program from real records.
//   node test/run_browser_tests.mjs PROGRAM [SCREENSHOTS [PART OF A NAME]]
// Exits with 77 where there is no Chromium. RIDGEPOINT_CHROMIUM names it; otherwise the usual names are tried.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { findChromium, runTests } from "./browser.mjs";

const program = resolve(process.argv[2] ?? "../build/ridgepoint");
const folder = mkdtempSync(join(tmpdir(), "ridgepoint-report-"));
const screenshots = resolve(process.argv[3] ?? join(folder, "screenshots"));
const path = (name) => join(folder, name);
const kCheckedIn = new URL("../../docs/study/h200/report.html", import.meta.url);

function ridgepoint(...args) {
  execFileSync(program, args, { stdio: ["ignore", "ignore", "pipe"] });
}

function makeRecords() {
  const quick = ["--warmup", "1", "--steps", "5"];
  const model = ["--layers", "2", "--d-model", "64", "--d-ff", "128", "--heads", "2", "--vocab", "1000"];
  ridgepoint("bench", ...model, ...quick, "--mode", "forward,backward,step", "--context", "32,64,128,256", "--batch", "2", "--memory-limit", "12MiB",
    "--output", path("bench.jsonl"));
  ridgepoint("attention", "--d-model", "32", "--sequence", "64:512:*2", "--attention", "naive,composite,flash", ...quick, "--memory-limit", "24MiB",
    "--output", path("attention.json"));
  ridgepoint("plan", "--model", "small,large", "--dtype", "bf16", "--card", "h100", "--context", "256:4096:*2", "--output", path("plan.json"));
  ridgepoint("profile", ...model, ...quick, "--context", "64", "--output", path("profile.json"));
  ridgepoint("memory", ...model, "--context", "64", "--timeline", path("run.csv"), "--output", path("memory.json"));
  ridgepoint("precision", "--output", path("precision.json"));
  const published = [64, 128, 256].map((context) => ({ schema: 1, command: "attention", engine: "a paper", attention: "flash", context, forward_ms: { median: 40 / context } }));
  writeFileSync(path("paper.jsonl"), published.map((record) => JSON.stringify(record)).join("\n"));
}

// A study that takes seconds: every kind of section, with the smallest rows.
function makeStudy() {
  ridgepoint("study", "--quick", "--model", "tiny", "--limit", "4s", "--memory-limit", "256MiB", "--output", path("study"),
    "--only", "sizes,profile,accumulation,autocast,memory_step,attention_grid,accounting");
}

const kFiles = ["bench.jsonl", "attention.json", "plan.json", "profile.json", "memory.json", "run.csv", "precision.json"];

function report(name, files, ...more) {
  ridgepoint("report", ...files.map(path), "--output", path(name), ...more);
  return pathToFileURL(path(name)).href;
}

let browser;
const tests = [];
const test = (name, run) => tests.push({ name, run });

// Opens a page with its sections unfolded; a message of the console, an exception or a request other than the page itself
// fails the test.
async function open(url, { isFolded = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  context.setDefaultTimeout(120_000);  // the machine may be busy
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => problems.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => problems.push(`exception: ${error.message}`));
  page.on("request", (request) => { if (request.url().split("#")[0] !== url.split("#")[0]) problems.push(`request: ${request.url()}`); });
  await page.goto(url);
  await page.waitForSelector("footer");
  if (!isFolded) await page.getByRole("button", { name: "Unfold all" }).click();
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return { page, close: async () => { await context.close(); assert.deepEqual(problems, []); } };
}

const overflow = (page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);

test("all experiments are on the page, without errors or requests", async () => {
  const { page, close } = await open(report("page.html", kFiles, "--title", "A test"));
  assert.equal(await page.title(), "A test");
  const headings = await page.locator("h2").allTextContents();
  assert.deepEqual(headings, ["Result", "bench", "attention", "plan", "profile", "memory", "Where the time goes", "Where the memory goes", "precision", "Rows and files"]);
  assert.match(await page.locator(".sentences").innerText(), /rows from 7 files/);
  assert.equal(await page.locator("#where-time-goes .flame .block").first().isVisible(), true);
  await page.screenshot({ path: join(screenshots, "light-1600.png"), fullPage: true });
  await close();
});

// A loss of trainings with a spike, which only a page of steps has.
function makeTrainings() {
  writeFileSync(path("text.txt"), Array.from({ length: 400 }, (_, line) => `line ${line} says that ${line * 7} is not ${line % 13}\n`).join(""));
  for (const [name, rate] of [["slow", "1e-3"], ["fast", "4e-3"]]) {
    ridgepoint("train", "--data", path("text.txt"), "--layers", "1", "--d-model", "32", "--heads", "2", "--context", "32", "--batch", "4", "--accumulate", "2", "--device", "cpu",
      "--iterations", "400", "--validation-share", "0.1", "--evaluate-every", "50", "--save", path(name), "--save-every", "100", "--learning-rate", rate, "--schedule", "cosine", "--warmup", "40");
  }
}

test("trainings lie over one another, with their validation and checkpoints", async () => {
  makeTrainings();
  const { page, close } = await open(report("trainings.html", ["slow", "fast"]));
  const section = page.locator("#train"), loss = section.locator("figure").first();
  assert.deepEqual(await loss.locator(".legend-entry").allInnerTexts(), ["slow", "fast"]);
  assert.equal(await loss.locator("[data-series='0'] polyline").count(), 3);  // pale, mean and validation
  assert.equal(await loss.locator("[data-series='1'] circle, [data-series='1'] polygon").count(), 8);  // evaluations
  assert.equal(await loss.locator(".event").count(), 6);  // no step waits behind the last checkpoint
  assert.equal(await section.locator("figure").count(), 4 + await section.locator("figcaption", { hasText: "noise" }).count());
  const middle = async () => (await loss.locator("[data-series='0'] polyline").nth(1).getAttribute("points")).split(" ")[50];
  const linear = await middle();
  await section.screenshot({ path: join(screenshots, "trainings.png") });
  await loss.getByLabel("The vertical axis is").selectOption("logarithmic");
  assert.notEqual(await middle(), linear);
  assert.match(await loss.locator("svg text").allTextContents().then((texts) => texts.join("\n")), /loss \(logarithmic\)/);
  await section.getByLabel("The horizontal axes are").selectOption("tokens");
  assert.match(await loss.locator("svg text").allTextContents().then((texts) => texts.join("\n")), /tokens, k \(linear\)|tokens \(linear\)/);
  await loss.locator(".plot").focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.match(await loss.locator(".tip").innerText(), /^tokens .*\nslow: .*\n/);
  await loss.getByRole("button", { name: "fast" }).click();
  assert.equal(await loss.locator("[data-series='0']").first().getAttribute("opacity"), "0.2");
  const rows = section.locator("table", { hasText: "Trainings" }).locator("tbody tr");
  assert.deepEqual(await rows.locator("th").allInnerTexts(), ["slow", "fast"]);
  assert.equal(await page.locator("#result dt", { hasText: "Loss of training" }).count(), 1);
  await section.getByText("Steps of fast as a table").click();
  const steps = section.locator("table", { hasText: "Steps of fast" }).locator("tbody tr");
  await steps.first().waitFor();  // the page makes the table once it is told that the line is open
  assert.equal(await steps.count(), 40);
  await close();
});

test("published figures are hollow marks with a series of their own", async () => {
  const { page, close } = await open(report("published.html", ["attention.json"], "--published", path("paper.jsonl")));
  const chart = page.locator("#attention figure").first();
  await chart.getByRole("button", { name: /published: paper\.jsonl, .*a paper/ }).waitFor();
  await chart.screenshot({ path: join(screenshots, "published.png") });
  await close();
});

test("a table has words for the numbers that have them, and a unit for each of the others", async () => {
  ridgepoint("plan", "--model", "tiny", "--card", "h100", "--parallel", "data=2,bucket=each,1MiB,all", "--output", path("ways.json"));
  const { page, close } = await open(report("ways.html", ["ways.json"]));
  const table = page.locator("#plan table").last();
  assert.equal(await table.getByRole("columnheader", { name: /^buckets/ }).innerText(), "buckets");
  assert.deepEqual(await table.locator("tbody tr :nth-child(1)").allInnerTexts(), ["one gradient", "1 MiB", "all gradients"]);
  await page.locator("#plan figcaption", { hasText: "Predicted time of a step by what is sent" }).waitFor();
  await close();
});

test("headings sort by mouse and keyboard, and say so", async () => {
  const { page, close } = await open(report("page.html", kFiles));
  const table = page.locator("#bench table").last();
  const heading = table.getByRole("columnheader", { name: /^mean/ });
  const means = async () => {
    const place = await heading.evaluate((th) => th.cellIndex);
    const texts = await table.locator(`tbody tr :nth-child(${place + 1})`).allTextContents();
    return texts.filter((text) => text !== "–").map((text) => Number(text.replace(/\u202f/g, "")));
  };
  await heading.getByRole("button").click();
  assert.equal(await heading.getAttribute("aria-sort"), "descending");
  const falling = await means();
  assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
  await heading.getByRole("button").press("Enter");
  assert.equal(await heading.getAttribute("aria-sort"), "ascending");
  assert.deepEqual(await means(), [...falling].reverse());
  await close();
});

test("dark colours follow the system, and the button", async () => {
  const { page, close } = await open(report("page.html", kFiles), { colorScheme: "dark" });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await background(), "rgb(20, 23, 27)");
  await page.screenshot({ path: join(screenshots, "dark-1600.png"), fullPage: true });
  await page.getByRole("button", { name: "Light colours" }).click();
  assert.equal(await background(), "rgb(255, 255, 255)");
  await close();
});

test("360 pixels are enough: tables scroll, the page does not", async () => {
  const { page, close } = await open(report("page.html", kFiles), { viewport: { width: 360, height: 800 } });
  assert.equal(await overflow(page), 0);
  await page.screenshot({ path: join(screenshots, "light-360.png"), fullPage: true });
  await close();
});

test("the page prints in light colours", async () => {
  const { page, close } = await open(report("page.html", kFiles), { colorScheme: "dark" });
  await page.pdf({ path: join(screenshots, "print.pdf"), format: "A4" });
  assert.ok(readFileSync(join(screenshots, "print.pdf")).length > 50_000);
  await close();
});

test("the timeline names what is under the pointer, zooms, and answers to keys", async () => {
  const { page, close } = await open(report("page.html", kFiles));
  const chart = page.locator("#where-memory-goes figure").first();
  await chart.scrollIntoViewIfNeeded();
  const over = chart.locator(".plot svg");
  const box = await over.boundingBox();
  await page.mouse.move(box.x + 0.55 * box.width, box.y + 0.5 * box.height);
  await assert.doesNotReject(chart.locator(".tip").getByText(/allocated .*, reserved/).waitFor({ timeout: 2000 }));
  await page.screenshot({ path: join(screenshots, "timeline.png") });
  const painted = async () => (await chart.locator(".plot").innerHTML()).replaceAll(/clip-\d+/g, "");
  const everything = await painted();
  await page.mouse.down();
  await page.mouse.move(box.x + 0.75 * box.width, box.y + 0.5 * box.height, { steps: 5 });
  await page.mouse.up();
  await page.waitForTimeout(100);
  assert.notEqual(await painted(), everything);
  await chart.locator(".plot").focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await chart.locator(".tip").innerText(), /alloc|free/);
  await page.keyboard.press("Escape");
  await page.mouse.move(0, 0);
  await page.waitForTimeout(100);
  assert.equal(await painted(), everything);
  await close();
});

test("a million events stay smooth", async () => {
  const origins = ["forward,alloc,activation,matmul,layers.0.ffn.w1,a.cpp:1", "backward,free,activation,matmul,layers.0.ffn.w1,a.cpp:1"];
  const lines = ["event,time_ms,phase,action,category,op,module,source,iteration,bytes,allocated_bytes,reserved_bytes"];
  for (let i = 0, level = 0; i < 1_000_000; ++i) {
    const isFree = Math.floor(i / 50_000) % 2;
    level += isFree ? -4096 : 4096;
    lines.push(`${i},${(i / 1000).toFixed(3)},${origins[isFree]},${1 + Math.floor(i / 100_000)},4096,${level},300000000`);
  }
  writeFileSync(path("long.csv"), lines.join("\n") + "\n");
  const { page, close } = await open(report("long.html", ["long.csv"]));
  const chart = page.locator("#where-memory-goes figure").first();
  await chart.locator(".plot").focus();
  for (const key of ["+", "+", "ArrowRight", "-", "Escape"]) {
    const duration = await page.evaluate(async (pressed) => {
      const begin = performance.now();
      document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: pressed, bubbles: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      return performance.now() - begin;
    }, key);
    assert.ok(duration < 500, `${key} took ${duration} ms`);
  }
  await page.screenshot({ path: join(screenshots, "million.png") });
  await close();
});

test("a click makes a module as wide as the flame view", async () => {
  const { page, close } = await open(report("page.html", kFiles));
  const flame = page.locator(".flame");
  await flame.getByRole("button", { name: /^layers\.\*\.attn:/ }).click();
  const [block, view] = [await flame.locator("[aria-current]").boundingBox(), await flame.boundingBox()];
  assert.ok(Math.abs(block.width - view.width) < 2);
  await page.getByRole("button", { name: "Show everything" }).click();
  assert.equal(await flame.locator("[aria-current]").count(), 0);
  await close();
});

test("the roofline names kernels by key", async () => {
  const { page, close } = await open(report("page.html", kFiles));
  const plot = page.getByRole("application", { name: /^Roofline/ });
  await plot.focus();
  await page.keyboard.press("ArrowRight");
  assert.match(await plot.locator("..").locator(".tip").innerText(), /of kernel time[\s\S]*flop\/byte/);
  await close();
});

test("records that lack nearly everything, and grids of many rows, are shown", async () => {
  const commands = ["bench", "attention", "plan", "profile", "memory"];
  const bare = commands.flatMap((command) => [{ schema: 1, command }, { schema: 1, command, status: "oom", context: 9 }]);
  bare.push({ schema: 1, command: "profile", profile: { steps: 1, scopes: [{ path: 1, level: 7 }, 3], recoverable: [{}], classes: [{}], kernels: [{}] } });
  bare.push({ schema: 1, command: "memory", memory: { phases: [{}], largest_allocations: [{}] } });
  writeFileSync(path("bare.json"), JSON.stringify(bare));
  const grid = [16, 32, 64, 128].flatMap((d_model) => [256, 1024, 4096, 8192, 16384].flatMap((context) =>
    ["naive", "composite", "softmax", "weights", "recompute", "flash"].map((attention) => ({
      schema: 1, command: "attention", attention, context, keys: context, model: { d_model }, status: context > 8192 && attention !== "flash" ? "oom" : "ok",
      forward_ms: { median: context > 8192 && attention !== "flash" ? null : context * d_model / 1e4 }, memory_bytes: { peak_allocated: context * d_model },
    }))));
  writeFileSync(path("grid.json"), JSON.stringify(grid));
  for (const file of ["bare.json", "grid.json"]) {
    const { page, close } = await open(report(`${file}.html`, [file]));
    if (file === "grid.json") assert.equal(await page.locator("#attention figure.chart").count(), 8);
    await page.screenshot({ path: join(screenshots, `${file}.png`), fullPage: true });
    await close();
  }
});

test("a trace has a section with its bars and tables", async () => {
  const kernel = (name, ts, dur, correlation) => ({ ph: "X", cat: "kernel", name, pid: 0, tid: 7, ts, dur, args: { correlation } });
  const host = (cat, name, ts, dur, correlation) => ({ ph: "X", cat, name, pid: 9, tid: 9, ts, dur, args: { correlation } });
  const events = [host("user_annotation", "ProfilerStep#0", 0, 100), host("user_annotation", "ProfilerStep#1", 100, 50), host("cuda_runtime", "cudaLaunchKernel", 2, 1, 1),
    host("user_annotation", "Optimizer.step#AdamW.step", 20, 10), host("cuda_runtime", "cudaLaunchKernel", 22, 1, 2), kernel("gemm", 5, 10, 1), kernel("adam", 30, 5, 2)];
  writeFileSync(path("trace.json"), JSON.stringify({ traceEvents: events }));
  ridgepoint("trace", path("trace.json"), "--output", path("trace_documents.json"));
  const { page, close } = await open(report("trace.html", ["trace_documents.json"]));
  const section = page.locator("#trace-1");
  assert.match(await section.innerText(), /Kernel time by phase and class/);
  const captions = await section.locator("caption").allTextContents();
  for (const caption of ["Steps, by the host's clock", "The first step against the median of the later ones", "Kernels"])
    assert.ok(captions.some((each) => each.includes(caption)), `${caption} in ${captions}`);
  assert.match(await section.innerText(), /total, .s/);
  await close();
});

test("a study has its result and its answers first, and a section for each part with its command lines", async () => {
  const { page, close } = await open(report("study.html", ["study"]));
  const headings = await page.locator("h2").allTextContents();
  assert.deepEqual(headings.slice(0, 2), ["Result", "Answers"]);
  const ids = await page.locator("section").evaluateAll((sections) => sections.map(({ id }) => id));
  assert.deepEqual(ids, ["result", "answers", "devices", "sizes", "profile", "accumulation", "autocast", "memory_step", "attention_grid", "accounting", "rows"]);
  const targets = await page.locator("#answers a").evaluateAll((links) => links.map((link) => link.getAttribute("href").slice(1)));
  assert.ok(targets.length > 10 && targets.every((target) => ids.includes(target)), targets.join(" "));
  await page.locator("#sizes .commands summary").click();
  assert.match(await page.locator("#sizes pre").innerText(), /^ridgepoint bench --device cpu .*--model tiny/);
  assert.match(await page.locator("#accumulation").innerText(), /10\.00013351/);
  assert.match(await page.locator("#autocast").innerText(), /layer_norm/);
  for (const part of ["profile", "memory_step"]) assert.ok(await page.locator(`#${part} figure`).count() >= 2);
  await page.screenshot({ path: join(screenshots, "study-1600.png"), fullPage: true });
  await close();
});

test("controls are large enough for a pointer, few for the Tab key, and named once", async () => {
  for (const url of [report("page.html", kFiles), report("study.html", ["study"])]) {
    const { page, close } = await open(url);
    const found = await page.evaluate(() => {
      const shown = [...document.querySelectorAll("button, select, summary, [tabindex]")].filter((element) => element.getClientRects().length > 0);
      const small = shown.filter((element) => Math.min(element.getBoundingClientRect().width, element.getBoundingClientRect().height) < 23.9);
      const regions = [...document.querySelectorAll("[role=region]")].map((element) => element.getAttribute("aria-label"));
      return {
        small: small.map((element) => element.outerHTML), regions, charts: document.querySelectorAll("figure, table").length,
        stops: shown.filter((element) => element.tabIndex >= 0).length, first: document.querySelector("section").id, skip: document.querySelector(".skip").getAttribute("href"),
      };
    });
    assert.deepEqual(found.small, []);
    assert.equal(new Set(found.regions).size, found.regions.length);
    assert.equal(found.skip, `#${found.first}`);
    assert.ok(found.stops <= 3 * found.charts + 10, `${found.stops} tab stops, ${found.charts} charts and tables`);
    await close();
  }
});

test("the arrow keys go from heading to heading of a table", async () => {
  const { page, close } = await open(report("page.html", kFiles));
  const headings = page.locator("#bench table").last().locator("thead button");
  await headings.first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await headings.nth(1).evaluate((button) => button === document.activeElement), true);
  assert.deepEqual(await headings.evaluateAll((buttons) => buttons.map(({ tabIndex }) => tabIndex).filter((index) => index >= 0).length), 1);
  await close();
});

test("published figures of a study are hollow marks under their study's name", async () => {
  const { page, close } = await open(report("study.html", ["study"]));
  await page.locator("#attention_grid").getByRole("button", { name: "published, a100_80gb_pcie" }).first().waitFor();
  assert.match(await page.locator("#attention_grid table").innerText(), /same workload, other card/);
  await close();
});

test("a study is read at 360 pixels in the dark, and its page is small", async () => {
  const { page, close } = await open(report("study.html", ["study"]), { viewport: { width: 360, height: 800 }, colorScheme: "dark" });
  assert.equal(await overflow(page), 0);
  await page.screenshot({ path: join(screenshots, "study-360.png"), fullPage: true });
  await close();
  for (const name of [path("study.html"), path("study/report.html"), kCheckedIn]) assert.ok(readFileSync(name).length < 2_500_000);
});

const kPages = [() => report("page.html", kFiles), () => report("study.html", ["study"])];

test("the first screen is the result: the device, figures with their configurations, and verdicts", async () => {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 360, height: 740 }]) {
    for (const url of kPages) {
      const { page, close } = await open(url(), { viewport, isFolded: true });
      assert.match(await page.locator(".subject").innerText(), /\d [KMG]iB/);
      const figures = page.locator("#result .figure");
      assert.equal(await figures.count(), 5);
      for (const figure of await figures.all()) {
        assert.match(await figure.locator(".value").innerText(), /^[\d.\u202f]+ ?\S*$/);
        assert.notEqual(await figure.locator(".configuration").innerText(), "");
        const box = await figure.boundingBox();
        assert.ok(box.y + box.height <= viewport.height, `${box.y + box.height} of ${viewport.height}`);
      }
      assert.match(await page.locator(".verdicts").innerText(), /rows: \d+ finished/);
      await close();
    }
  }
});

test("sections are folded until a link, a button or print opens them", async () => {
  const { page, close } = await open(kPages[1](), { isFolded: true });
  const open_ = () => page.locator("details.fold[open]").count();
  assert.equal(await open_(), 0);
  const link = page.locator("#result .figure a").first(), target = page.locator(await link.getAttribute("href"));
  await link.click();
  await target.locator(".table-box").last().waitFor();
  // At the top, or as far up as the page goes.
  const [top, below] = await target.evaluate((section) => [section.getBoundingClientRect().top, document.documentElement.scrollHeight - innerHeight - scrollY]);
  assert.ok(Math.abs(top) < 2 || (top > 0 && below < 2), `${await target.getAttribute("id")}: ${top}, ${below}`);
  await page.locator("nav summary").click();
  await page.getByRole("link", { name: "Types under autocast" }).click();
  await page.locator("#autocast table").first().waitFor();
  assert.equal(await open_(), 2);
  assert.equal(await page.locator("#profile details.fold details.fold").count(), 2);
  const all = await page.locator("details.fold").count();
  const counts = await page.evaluate(() => ["beforeprint", "afterprint"].map((name) => {
    dispatchEvent(new Event(name));
    return document.querySelectorAll("details.fold[open]").length;
  }));
  assert.deepEqual(counts, [all, 2]);
  await page.getByRole("button", { name: "Unfold all" }).click();
  assert.equal(await open_(), all);
  await close();
  const linked = await open(`${kPages[1]()}#autocast`, { isFolded: true });
  assert.equal(await linked.page.locator("#autocast table").first().isVisible(), true);
  await linked.close();
});

test("the contents take one line of a telephone", async () => {
  const { page, close } = await open(kPages[1](), { viewport: { width: 360, height: 740 }, isFolded: true });
  assert.ok((await page.locator("nav").boundingBox()).height < 40);
  assert.equal(await overflow(page), 0);
  await close();
});

test("a chart is saved as SVG and as PNG, with its legend and with all that it needs", async () => {
  const { page, close } = await open(kPages[0]());
  for (const figure of ["#bench figure >> nth=0", "#where-memory-goes figure >> nth=0", "#bench figure >> nth=-1", ".flame >> xpath=ancestor::figure"]) {
    const chart = page.locator(figure).first();
    const title = await chart.locator("figcaption").innerText(), legend = await chart.locator(".legend-entry").allInnerTexts();
    const saved = async (type) => {
      const [download] = await Promise.all([page.waitForEvent("download"), chart.getByRole("button", { name: `Save as ${type}` }).click()]);
      assert.match(download.suggestedFilename(), new RegExp(`^[a-z0-9-]+\\.${type.toLowerCase()}$`));
      return readFileSync(await download.path());
    };
    const text = (await saved("SVG")).toString();
    const drawn = await page.evaluate((source) => {
      const root = new DOMParser().parseFromString(source, "image/svg+xml").documentElement;
      return { name: root.nodeName, texts: [...root.querySelectorAll("text")].map(({ textContent }) => textContent), size: Number(root.getAttribute("width")), shapes: root.querySelectorAll("path, polyline, rect").length };
    }, text);
    assert.equal(drawn.name, "svg");
    assert.ok(drawn.texts.join(" ").startsWith(title) && legend.every((label) => drawn.texts.includes(label)) && drawn.shapes > 3, title);
    assert.doesNotMatch(text, /var\(|href|style=/);
    const png = await saved("PNG");
    assert.equal(png.subarray(1, 4).toString(), "PNG");
    assert.equal(png.readUInt32BE(16), 2 * drawn.size);
  }
  await close();
});

test("axes name their quantity and scale, and charts of memory have the limit of the device", async () => {
  const { page, close } = await open(kPages[0]());
  const charts = await page.locator("figure.chart").evaluateAll((figures) => figures.filter((figure) => figure.querySelector(".flame") === null).map((figure) => ({
    title: figure.querySelector("figcaption").textContent, texts: [...figure.querySelectorAll(".plot text")].map(({ textContent }) => textContent), limits: figure.querySelectorAll(".limit").length,
  })));
  assert.deepEqual(charts.filter(({ texts }) => !texts.some((text) => /^[a-z].* \((linear|logarithmic)\)$/.test(text))), []);
  const ofMemory = charts.filter(({ title }) => /^(peak|predicted peak|memory)/i.test(title));
  assert.ok(ofMemory.length >= 5);
  assert.deepEqual(ofMemory.filter(({ limits }) => limits === 0).map(({ title }) => title), []);
  // The name of a limit hides no data.
  const hidden = await page.locator("figure.chart .limit").evaluateAll((lines) => lines.filter((line) => line.parentElement.querySelector("[data-series]")?.compareDocumentPosition(line) === Node.DOCUMENT_POSITION_FOLLOWING &&
    line.parentElement.querySelector("polyline") !== null).length);
  assert.equal(hidden, 0);
  await close();
});

test("curves differ in dashes and marks, and the legend brings one to the front without hiding another", async () => {
  const { page, close } = await open(kPages[0]());
  const chart = page.locator("#attention figure").first();
  const series = () => chart.locator(".plot [data-series]").evaluateAll((groups) => groups.map((group) => ({
    opacity: group.getAttribute("opacity"), dashes: group.querySelector("polyline").getAttribute("stroke-dasharray"), mark: group.children[1].nodeName + group.children[1].getAttribute("points")?.split(" ").length,
  })));
  const before = await series();
  assert.equal(new Set(before.map(({ dashes }) => dashes)).size, before.length);
  assert.equal(new Set(before.map(({ mark }) => mark)).size, before.length);
  await chart.locator(".legend-entry").nth(1).click();
  assert.deepEqual((await series()).map(({ opacity }) => opacity), before.map((_, place) => (place === 1 ? "1" : "0.2")));
  const [legend, plot] = [await chart.locator(".legend").boundingBox(), await chart.locator(".plot").boundingBox()];
  assert.ok(legend.y + legend.height <= plot.y);
  await close();
});

test("key columns stay in view when a table is scrolled", async () => {
  for (const [width, least] of [[1280, 2], [360, 1]]) {
    const { page, close } = await open(kPages[0](), { viewport: { width, height: 800 } });
    const box = page.locator("#bench .table-box").last();
    await box.evaluate((element) => { element.scrollLeft = 1000; });
    const held = await box.evaluate((element) => [...element.querySelector("tbody tr").cells].filter((cell) => getComputedStyle(cell).position === "sticky")
      .map((cell) => cell.getBoundingClientRect().left - element.getBoundingClientRect().left));
    assert.ok(held.length >= least && held[0] === 0 && held.every((left) => left < width / 2), held.join(" "));
    await close();
  }
});

// Its last rows, which the page shows on demand, are the widest.
function longTable() {
  const [record] = JSON.parse(readFileSync(path("memory.json"), "utf8"));
  const [first] = record.memory.largest_allocations;
  record.memory.largest_allocations = Array.from({ length: 100 }, (_, place) => ({ ...first, module: "layers.*.attn", source: place < 90 ? "a.cpp:1" : "a_folder_with_a_long_name/and_a_file_with_another.cpp:12345" }));
  writeFileSync(path("long.json"), JSON.stringify([record]));
  return report("long.html", ["long.json"]);
}

test("print breaks no heading inside a word, and cuts no table", async () => {
  for (const [url, headings] of [[kPages[1](), 9], [longTable(), 3]]) {
    const { page, close } = await open(url, { viewport: { width: 700, height: 990 }, isFolded: true });
    await page.emulateMedia({ media: "print" });
    const found = await page.evaluate(() => {
      dispatchEvent(new Event("beforeprint"));
      const shown = (selector) => [...document.querySelectorAll(selector)].filter((element) => element.getClientRects().length > 0);
      const broken = shown("h1, h2, h3, h4, th, caption, figcaption, dt").flatMap((element) => {
        const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), words = [];
        for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
          for (const { 0: word, index } of node.data.matchAll(/[A-Za-z]+/g)) {
            const range = document.createRange();
            range.setStart(node, index);
            range.setEnd(node, index + word.length);
            if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) words.push(word);
          }
        }
        return words;
      });
      const cut = shown("table").filter((table) => table.offsetWidth > table.parentElement.clientWidth + 1).map((table) => table.caption.textContent);
      const marked = shown(".fold > summary").filter((summary) => getComputedStyle(summary, "::before").content !== "none");
      return { headings: shown("h2").length, broken, cut, marked: marked.length };
    });
    assert.ok(found.headings >= headings);
    assert.deepEqual([found.broken, found.cut, found.marked], [[], [], 0]);
    await close();
  }
});

test("no revision with local changes and no name of a source stands on the page as it is in the rows", async () => {
  const rows = readFileSync(path("bench.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  rows.forEach((row, place) => { row.build.revision = `abc${place % 2}-dirty`; });
  writeFileSync(path("dirty.json"), JSON.stringify(rows));
  for (const url of [report("dirty.html", ["dirty.json"]), kPages[1]()]) {
    const { page, close } = await open(url);
    const text = await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; return document.body.textContent.replace(document.getElementById("ridgepoint-data")?.textContent ?? "", ""); });
    assert.doesNotMatch(text, /-dirty|unnamed_/);
    await close();
  }
});

test("axe-core finds nothing serious or critical", async () => {
  const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
  for (const colorScheme of ["light", "dark"]) {
    for (const url of kPages) {
      const { page, close } = await open(url(), { colorScheme, bypassCSP: true });
      await page.evaluate(axe);
      const { violations } = await page.evaluate((isDark) => axe.run({ resultTypes: ["violations"], ...(isDark ? { runOnly: ["color-contrast"] } : {}) }), colorScheme === "dark");
      assert.deepEqual(violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 150)).join(" | ")}`), []);
      await close();
    }
  }
});

// Names from records are text and nothing else, wherever they appear.
test("hostile names are shown as they are", async () => {
  const name = `</script><img src=x onerror="document.title='owned'"><!--<script>\u2028`;
  const [bench] = readFileSync(path("bench.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
  const [profile] = JSON.parse(readFileSync(path("profile.json"), "utf8"));
  const [memory] = JSON.parse(readFileSync(path("memory.json"), "utf8"));
  bench.model.name = profile.device.name = memory.memory.largest_allocations[0].module = name;
  profile.profile.scopes[0].path = profile.profile.kernels[0].name = profile.profile.classes[0].class = name;
  profile.profile.recoverable[0].what = name;
  writeFileSync(path("hostile.json"), JSON.stringify([bench, { ...bench, context: 7, status: "error", error: { message: name } }, profile, memory]));
  const csv = readFileSync(path("run.csv"), "utf8").split("\n");
  csv[1] = csv[1].split(",").map((field, place) => (place === 10 ? `"${name.replaceAll('"', '""')}"` : field)).join(",");
  writeFileSync(path("hostile.csv"), csv.join("\n"));
  const { page, close } = await open(report("hostile.html", ["hostile.json", "hostile.csv"], "--title", name));
  assert.equal(await page.title(), name);
  assert.equal(await page.locator("img").count(), 0);
  assert.equal(await page.locator("h1").innerText().then((text) => text.includes("<img src=x")), true);
  assert.ok((await page.locator("#bench").innerText()).includes("</script><img"));
  await page.evaluate(() => { for (const details of document.querySelectorAll("details")) details.open = true; });
  assert.ok((await page.locator("#where-time-goes").innerText()).includes("</script><img"));
  await close();
});

async function main() {
  const executablePath = findChromium();
  if (executablePath === undefined) {
    console.log("skipped: no Chromium is installed");
    process.exitCode = 77;
    return;
  }
  mkdirSync(screenshots, { recursive: true });
  makeRecords();
  makeStudy();
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const failures = await runTests(tests, process.argv[4]);
  await browser.close();
  process.exitCode = failures === 0 ? 0 : 1;
}

try {
  await main();
} finally {
  rmSync(folder, { recursive: true });
}
