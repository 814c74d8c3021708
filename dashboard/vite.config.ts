// Bundles the page into one script and one style sheet with fixed names, into a folder that
// scripts/pages.mjs then turns into the deliverables.
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "node_modules/.gordian-bundle",
    emptyOutDir: true,
    target: "es2021",
    modulePreload: false,
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        assetFileNames: "app[extname]",
        inlineDynamicImports: true,
      },
    },
  },
});
