// Unpacks the files of @sparticuz/chromium: unpack-chromium.mjs FROM TO
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";

const [from, to] = process.argv.slice(2);
const unpack = (name) => brotliDecompressSync(readFileSync(join(from, name)));

mkdirSync(to, { recursive: true });
writeFileSync(join(to, "chromium.bin"), unpack("chromium.br"));
chmodSync(join(to, "chromium.bin"), 0o755);
// Libraries into lib/, fonts into fonts/, the software renderer beside the program.
for (const name of ["al2023.tar.br", "fonts.tar.br", "swiftshader.tar.br"]) {
  execFileSync("tar", ["-xf", "-", "-C", to, "--no-same-owner"], { input: unpack(name) });
}
