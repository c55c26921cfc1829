import { expect, test } from 'vitest'
import { Together } from './statement-batcher.ts'

/** Answers on demand, and records which requests were combined. */
function asker() {
  const asked: number[][] = []
  const pending: { readonly resolve: () => void; readonly reject: (error: Error) => void }[] = []
  const together = new Together<number, number>((asks) => {
    asked.push([...asks])
    return new Promise((resolve, reject) => {
      pending.push({ resolve: () => resolve(asks.map((ask) => ask * 10)), reject })
    })
  })
  return { together, asked, pending }
}

const soon = () => new Promise<void>((resolve) => setImmediate(resolve))

test('questions of one moment share a statement, and each gets its own answer', async () => {
  const { together, asked, pending } = asker()
  const answers = Promise.all([1, 2, 3].map((ask) => together.answer(ask)))
  await soon()
  expect(asked).toEqual([[1, 2, 3]])
  pending[0]!.resolve()
  expect(await answers).toEqual([10, 20, 30])
})

test('who comes while all lanes are busy gathers, and goes when one is done', async () => {
  const { together, asked, pending } = asker()
  const answers: Promise<number>[] = []
  for (let ask = 1; ask <= 7; ask++) {
    answers.push(together.answer(ask))
    await soon()
  }
  expect(asked).toEqual([[1], [2], [3], [4]])
  pending[2]!.resolve()
  expect(await answers[2]).toBe(30)
  await soon()
  expect(asked.at(-1)).toEqual([5, 6, 7])
  for (const { resolve } of pending) resolve()
  expect(await Promise.all(answers)).toEqual([10, 20, 30, 40, 50, 60, 70])
})

test('a failing statement fails only for its own callers', async () => {
  const { together, pending } = asker()
  const lost = together.answer(1)
  const other = soon().then(() => together.answer(2))
  await soon()
  await soon()
  pending[0]!.reject(new Error('cut'))
  await expect(lost).rejects.toThrow('cut')
  pending[1]!.resolve()
  expect(await other).toBe(20)
})

test('a crowd goes in statements of bounded size', async () => {
  const { together, asked, pending } = asker()
  const answers = Array.from({ length: 300 }, (_, ask) => together.answer(ask))
  await soon()
  expect(asked.map((asks) => asks.length)).toEqual([64, 64, 64, 64])
  for (const { resolve } of pending.slice()) resolve()
  await soon()
  for (const { resolve } of pending) resolve()
  expect(await Promise.all(answers)).toEqual(Array.from({ length: 300 }, (_, ask) => ask * 10))
})
