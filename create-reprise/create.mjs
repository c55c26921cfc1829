#!/usr/bin/env node
// npm create reprise FOLDER -- --template NAME: writes a project, installs it, and prints the command that starts it. Templates
// with a framework are folders beside this file; the others are those of `reprise init` of the installed package.

import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const here = fileURLToPath(new URL('.', import.meta.url))
const own = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))

/** `init`: the template of `reprise init` that it takes. `start`: the command that runs the project. */
const templates = {
  job: { summary: 'a list of items, each done once', init: 'job', start: 'npx reprise run papers.mjs' },
  workflow: {
    summary: 'an HTTP service with Hono, whose orders are workflows',
    start: 'npm start',
    needs: { hono: '^4.6.0', '@hono/node-server': '^2.0.0' },
    scripts: { start: 'node server.mjs' },
  },
  agent: {
    summary: 'a model that calls tools, in a session that resumes',
    init: 'agent',
    start: 'node chat-support.mjs',
  },
  pipeline: {
    summary: 'a stream of records into windows and files',
    init: 'pipeline',
    start: 'npx reprise run readings.mjs',
  },
}

const usage = `Usage: npm create reprise FOLDER -- [--template NAME]

${Object.entries(templates)
  .map(([name, { summary }]) => `  ${name.padEnd(10)}${summary}`)
  .join('\n')}

  --package SPEC   the package of Reprise: a version, or the path of a tarball (default: ${own.version})
  --no-install     write the files only
`

function main() {
  let parsed
  try {
    const options = {
      template: { type: 'string' },
      package: { type: 'string' },
      'no-install': { type: 'boolean' },
      help: { type: 'boolean' },
    }
    parsed = parseArgs({ options, allowPositionals: true })
  } catch (error) {
    return refuse(`${error.message}\n\n${usage}`)
  }
  const { values, positionals } = parsed
  if (values.help) return console.log(usage) ?? 0
  if (positionals.length !== 1) return refuse(usage)
  const name = values.template ?? 'job'
  if (!Object.hasOwn(templates, name)) return refuse(`there is no template ${name}\n\n${usage}`)
  const folder = resolve(positionals[0])
  if (existsSync(folder) && readdirSync(folder).some((each) => each !== '.git' && each !== 'node_modules'))
    return refuse(`${folder} is not empty: choose another folder`)
  write(folder, name, specOf(values.package))
  return values['no-install'] ? 0 : install(folder, name, positionals[0])
}

function refuse(message) {
  console.error(message)
  return 2
}

/** A path is written as npm needs it in another folder. */
function specOf(given) {
  if (given === undefined) return `^${own.version}`
  return existsSync(given) ? pathToFileURL(resolve(given)).href.replace('file://', 'file:') : given
}

function write(folder, name, spec) {
  const { needs = {}, scripts = {} } = templates[name]
  mkdirSync(folder, { recursive: true })
  if (existsSync(join(here, 'templates', name))) cpSync(join(here, 'templates', name), folder, { recursive: true })
  const manifest = {
    name: basename(folder).toLowerCase(),
    private: true,
    type: 'module',
    scripts,
    dependencies: { reprise: spec, ...needs },
  }
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  writeFileSync(join(folder, '.gitignore'), 'node_modules\n.reprise\n')
  writeFileSync(join(folder, 'AGENTS.md'), agents)
}

const agents = `# For coding agents

- Before you write code with Reprise, read node_modules/reprise/skills/reprise/SKILL.md, and its page for the model that you use.
- Types are in node_modules/reprise/docs/api, error codes in node_modules/reprise/docs/errors.md.
- Every call of an outside system belongs into a step, with the key that the step gets.
- Check a change of workflow code with \`npx reprise check FILE\` before a deploy.
`

function install(folder, name, shown) {
  const { init, start } = templates[name]
  const options = { cwd: folder, stdio: 'inherit' }
  if (spawnSync('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error'], options).status !== 0)
    return refuse('npm install failed: mend the cause, then run it in the folder')
  if (init) {
    const args = ['node_modules/reprise/dist/cli/bin.cjs', 'init', '.', '--template', init, '--yes', '--language', 'js']
    if (spawnSync(process.execPath, args, { ...options, stdio: ['ignore', 'ignore', 'inherit'] }).status !== 0) return 1
  }
  console.log(`\nstart it:  cd ${shown} && ${start}\nthen kill it, and start it again: it resumes where it stopped`)
  return 0
}

process.exitCode = main()
