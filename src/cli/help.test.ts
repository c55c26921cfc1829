// Every command's summary is one imperative sentence.

import { expect, it } from 'vitest'
import { commands } from './commands.ts'

const verbs = new Set([
  ...[
    'answer',
    'ask',
    'call',
    'capture',
    'check',
    'decide',
    'encrypt',
    'end',
    'explain',
    'follow',
    'get',
    'go',
    'import',
    'list',
  ],
  ...[
    'make',
    'mark',
    'offer',
    'print',
    'read',
    'rebuild',
    'remember',
    'replay',
    'restore',
    'resume',
    'run',
    'say',
    'send',
  ],
  ...['serve', 'ship', 'show', 'start', 'stop', 'take', 'watch', 'write'],
])

it('a command says in one imperative sentence what it does', () => {
  expect(commands.length).toBeGreaterThan(50)
  const wrong = commands.filter(({ summary }) => {
    const [verb = ''] = summary.split(/[\s:]/)
    return !verbs.has(verb) || /[.!]$/.test(summary) || summary.length > 110
  })
  expect(wrong.map(({ name, summary }) => `${name}: ${summary}`)).toEqual([])
})
