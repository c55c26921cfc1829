// Types of plants.mjs, for the tests.

export const plants: Readonly<
  Record<string, { readonly in: string; readonly seedsMax: number; readonly simulation?: string }>
>
