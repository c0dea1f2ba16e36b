'use strict'

// Makes the packages for npm in dist/: hedgerow-level, and the prebuilt library of this platform
// with the notices of the crates that are linked into it. Then it runs the example with both, as
// installed.

const { execFileSync } = require('child_process')
const fs = require('fs')
const os = require('os')
const path = require('path')

const folder = path.join(__dirname, '..')
const dist = path.join(folder, 'dist')
const manifest = require('../package.json')
const { nativePackage } = require('../lib/platform')

// The platforms that a release is made for: those that were tried.
const platforms = ['linux-x64-gnu']

const run = (program, args, cwd) => execFileSync(program, args, {
  cwd,
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'inherit']
})

// Packs a folder with these files and this manifest. The result is the path of the tarball.
function pack (staging, manifest, files) {
  fs.mkdirSync(staging, { recursive: true })
  for (const [from, to] of files) fs.cpSync(from, path.join(staging, to), { recursive: true })
  fs.writeFileSync(path.join(staging, 'package.json'), JSON.stringify(manifest, null, 2) + '\n')
  const name = run('npm', ['pack', '--silent', '--pack-destination', dist], staging).trim()
  return path.join(dist, name)
}

function main () {
  run(process.execPath, [path.join(__dirname, 'build.js')], folder)
  fs.rmSync(dist, { recursive: true, force: true })
  fs.mkdirSync(dist)
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'hedgerow-level-'))
  const { name, version, description, license, engines, dependencies, keywords, main, types, exports } = manifest
  const library = path.join(scratch, 'hedgerow.node')
  fs.copyFileSync(path.join(folder, 'hedgerow.node'), library)
  run('strip', ['-S', library])
  const root = path.join(folder, '../..')
  const licenses = ['LICENSE-APACHE', 'LICENSE-MIT'].map(it => [path.join(root, it), it])
  const notices = path.join(scratch, 'third-party-notices.txt')
  const linked = run(path.join(root, 'packaging/notices'), [path.join(root, 'bindings/Cargo.toml'), 'hedgerow-node'], folder)
  fs.writeFileSync(notices, linked)

  const native = pack(path.join(scratch, 'native'), {
    name: nativePackage,
    version,
    description: `The library of ${name} for ${process.platform}, ${process.arch}`,
    license,
    engines,
    main: 'hedgerow.node',
    os: [process.platform],
    cpu: [process.arch],
    libc: ['glibc']
  }, [[library, 'hedgerow.node'], [notices, 'third-party-notices.txt'], ...licenses])

  const optionalDependencies = Object.fromEntries(platforms.map(it => [`${name}-${it}`, version]))
  const script = pack(path.join(scratch, 'script'), {
    name, version, description, license, engines, keywords, main, types, exports, dependencies, optionalDependencies
  }, [...manifest.files.map(it => [path.join(folder, it), it]), ...licenses])

  // As an install lays them out, with the dependencies of this folder.
  const modules = path.join(scratch, 'modules', 'node_modules')
  fs.cpSync(path.join(folder, 'node_modules'), modules, { recursive: true })
  for (const [tarball, of] of [[native, nativePackage], [script, name]]) {
    const target = path.join(modules, of)
    fs.mkdirSync(target)
    run('tar', ['--extract', '--file', tarball, '--strip-components=1'], target)
  }
  const example = path.join(modules, '..', 'example.js')
  fs.copyFileSync(path.join(folder, 'example.js'), example)
  process.stdout.write(run(process.execPath, [example], path.dirname(example)))
  fs.rmSync(scratch, { recursive: true })
  for (const tarball of [native, script]) {
    console.log(`${path.relative(folder, tarball)}: ${fs.statSync(tarball).size} bytes`)
  }
}

main()
