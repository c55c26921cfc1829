#!/usr/bin/env node
// The first code that runs, on any Node: old-style JavaScript, so that a Node that is too old can still parse it and print
// one sentence. Everything else is loaded only if the version is right, and from `lib`: its classes must be those of the
// library that a user's module imports.

const required = '20.19.0'

function isOldEnough(version: string): boolean {
  const have = version.split('.').map(Number)
  const need = required.split('.').map(Number)
  for (let i = 0; i < 3; i++) if (have[i] !== need[i]) return have[i]! > need[i]!
  return true
}

if (isOldEnough(process.env.REPRISE_TEST_NODE_VERSION || process.versions.node)) require('../../lib/cli/start.cjs')
else {
  console.error(
    `Reprise needs Node ${required} or newer, and this is ${process.env.REPRISE_TEST_NODE_VERSION || process.versions.node}: install a newer one from https://nodejs.org`,
  )
  process.exitCode = 9
}
