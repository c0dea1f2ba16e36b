'use strict'

// Builds the native part and puts it beside index.js.

const { execFileSync } = require('child_process')
const fs = require('fs')
const path = require('path')

const folder = path.join(__dirname, '..')
const cargo = (args, stdout) => execFileSync('cargo', args, {
  cwd: folder,
  encoding: 'utf8',
  stdio: ['ignore', stdout, 'inherit']
})

const names = { darwin: 'libhedgerow_node.dylib', win32: 'hedgerow_node.dll' }
const name = names[process.platform] ?? 'libhedgerow_node.so'

cargo(['build', '--quiet', '--release', '-p', 'hedgerow-node'], 'inherit')
const metadata = cargo(['metadata', '--format-version', '1', '--no-deps'], 'pipe')
const built = path.join(JSON.parse(metadata).target_directory, 'release', name)
const target = path.join(folder, 'hedgerow.node')
// A new file: a process may have the old one loaded.
fs.rmSync(target, { force: true })
fs.copyFileSync(built, target)
