'use strict'

// Runs all tests, or those that are named, and compares the number of their assertions with what is
// expected: a suite that runs fewer has failed.
//
//   node test/run.js [--address] [SUITE...]
//
// `native` are the tests in Rust. With --address the process has the memory of AddressSanitizer,
// which sees wrong frees and copies out of bounds. This needs gcc.

const { execFileSync, spawnSync } = require('child_process')
const path = require('path')

const expected = {
  native: 10,
  'abstract-level': 5168,
  safety: 338,
  engine: 46,
  'event-loop': 86,
  exit: 13
}

const named = process.argv.slice(2).filter(it => it !== '--address')
const names = named.length > 0 ? named : Object.keys(expected)
const env = process.argv.includes('--address') ? withAddressSanitizer() : process.env
let [passed, failed] = [0, 0]
for (const name of names) {
  const script = ['--expose-gc', path.join(__dirname, `${name}.js`)]
  const [program, args] = name === 'native'
    ? ['cargo', ['test', '--quiet', '--release', '-p', 'hedgerow-node', '--', '--format', 'pretty']]
    : [process.execPath, script]
  const { stdout, status, signal } = spawnSync(program, args, {
    cwd: path.join(__dirname, '..'),
    encoding: 'utf8',
    env,
    maxBuffer: 1 << 30,
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const lines = stdout.split('\n')
  const count = is => lines.filter(line => is.test(line)).length
  const [ok, notOk] = name === 'native'
    ? [count(/^test .* ok$/), count(/^test .* FAILED$/)]
    : [count(/^ok /), count(/^not ok /)]
  console.log(`${name}: ${ok + notOk} ${name === 'native' ? 'tests' : 'assertions'} ran, ${expected[name]} are expected`)
  passed += ok
  failed += notOk
  if (notOk > 0) console.log(lines.filter(line => !line.startsWith('ok ')).join('\n'))
  if (ok + notOk !== expected[name] || status !== 0) {
    failed++
    console.log(`${name}: ended with ${signal ?? status}`)
  }
}
console.log(`\n${passed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0

function withAddressSanitizer () {
  const find = name => execFileSync('gcc', [`-print-file-name=${name}`], { encoding: 'utf8' }).trim()
  const libraries = ['libasan.so', 'libstdc++.so'].map(find)
  return { ...process.env, LD_PRELOAD: libraries.join(' '), ASAN_OPTIONS: 'detect_leaks=0' }
}
