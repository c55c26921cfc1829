// reprise init: writes a template that runs as it is.

import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { makeFolders } from '../../lib/durable-file.ts'
import { type Command, flag, type Options, text } from '../command.ts'
import { exit, UsageError } from '../exit.ts'
import type { Output } from '../output.ts'
import { Prompt } from '../prompt.ts'
import { canRunTypeScript, templates } from '../templates.ts'

const nameForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/

const init: Command = async ({ args, options, output, stdin }) => {
  const prompt = stdin.isTTY && !flag(options, 'yes') && !output.isJson ? await Prompt.open(stdin) : null
  try {
    return await write(args[0] ?? '.', options, output, async (option, question, otherwise) => {
      const given = text(options, option)
      return given ?? ((await prompt?.ask(`${question} [${otherwise}] `)) || otherwise)
    })
  } finally {
    prompt?.close()
  }
}

export default init

async function write(
  folder: string,
  options: Options,
  output: Output,
  answer: (option: string, question: string, otherwise: string) => Promise<string>,
): Promise<number> {
  const templateName = await answer(
    'template',
    `Which template: ${templates.map((each) => each.name).join(', ')}?`,
    'job',
  )
  const template = templates.find((each) => each.name === templateName)
  if (!template)
    throw new UsageError(
      `there is no template ${templateName}`,
      templates.map(({ name, summary }) => `${name}: ${summary}`).join('\n'),
    )
  const name = await answer('name', 'Its name?', template.defaultName)
  if (!nameForm.test(name)) throw new UsageError(`${name} is not a name: letters, digits, dots, dashes and underscores`)
  const language = await answer('language', 'ts or js?', canRunTypeScript() ? 'ts' : 'js')
  if (language !== 'ts' && language !== 'js') throw new UsageError('--language must be ts or js')
  const files = template.files(name, language).map((file) => ({ path: join(folder, file.path), content: file.content }))
  const there = files.filter((file) => existsSync(file.path)).map((file) => file.path)
  if (there.length > 0 && !flag(options, 'force')) {
    throw new UsageError(
      `${there.join(', ')} already ${there.length === 1 ? 'exists' : 'exist'}`,
      '--force overwrites them',
    )
  }
  for (const file of files) {
    makeFolders(dirname(file.path))
    writeFileSync(file.path, file.content)
  }
  const main = relative('.', files[0]!.path)
  const next = `${template.runsWith?.(language) ?? 'npx reprise run'} ${main}${template.name === 'workflow' ? ' --id first' : ''}`
  output.result({ template: template.name, files: files.map((file) => file.path), next }, () => {
    for (const file of files) output.line(`wrote ${file.path}`)
    // `dev` executes what several processes can share: the template of a pipeline is for one.
    const hasPage = !template.runsWith && template.name !== 'pipeline'
    const page = hasPage ? `\nor start and watch it on a page:  npx reprise dev ${main} --open` : ''
    const needsLoader = language === 'ts' && !canRunTypeScript()
    const loader = needsLoader ? '\nNode 20 needs a loader for TypeScript:  npm install --save-dev tsx' : ''
    output.lines(`${loader}\nrun it:  ${next}\nthen kill it, and run it again${page}`)
  })
  return exit.ok
}
