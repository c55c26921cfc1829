// The example of the documentation runs unchanged.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'reprise'
import { expect, it } from 'vitest'
import { runExample, seen } from '../../examples/checkout.ts'

it('the checkout ships one order and refunds the other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-example-'))
  const rp = await open(`sqlite:${join(folder, 'shop.db')}`)
  expect(await runExample(rp)).toEqual({
    shipped: { label: 'label of order-42', invoice: 'invoice of order-42 over 1999' },
    stopped: 'stopped by hand',
  })
  expect(seen.filter((line) => !line.startsWith('asked: '))).toEqual([
    expect.stringMatching(/^charge 1999 \(charge-[0-9a-f]{32}\)$/),
    expect.stringMatching(/^charge 500 \(charge-[0-9a-f]{32}\)$/),
    'refund p-500',
  ])
  await rp.close()
  rmSync(folder, { recursive: true, force: true })
})
