// Finds numbers in JSON that JavaScript would read as other numbers: integers of 64 bits lose their last digits.

const shownMax = 40

/** The first such number, as it is written. Null: JSON.parse keeps every number. */
export function inexactNumber(json: string): string | null {
  if (!/\d{16}|\d[eE]\+?\d{3}/.test(json)) return null
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    if (token.startsWith('"')) continue
    const number = Number(token)
    const isKept = /^-?\d+$/.test(token) ? Number.isSafeInteger(number) : Number.isFinite(number)
    if (!isKept) return token.slice(0, shownMax)
  }
  return null
}
