// What the tests in a browser share.
import { spawnSync } from "node:child_process";

export function findChromium() {
  const names = [process.env["RIDGEPOINT_CHROMIUM"], "chromium", "chromium-browser", "google-chrome"].filter(Boolean);
  return names.map((name) => spawnSync("which", [name], { encoding: "utf8" }).stdout.trim()).find((found) => found !== "");
}

// Runs those with `part` in their names, one after another, and returns how many fail.
export async function runTests(tests, part = "") {
  let failures = 0;
  for (const { name, run } of tests.filter((each) => each.name.includes(part))) {
    try {
      await run();
      console.log(`ok      ${name}`);
    } catch (error) {
      ++failures;
      console.log(`FAILED  ${name}\n${error.stack}`);
    }
  }
  return failures;
}
